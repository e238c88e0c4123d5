#include "base/hash.h"

#include <fmt/core.h>
#include <openssl/evp.h>

#include "base/check.h"

namespace htpipe {

struct Sha256::Impl {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~Impl() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  HTPIPE_CHECK(EVP_DigestInit_ex(impl_->context, EVP_sha256(), nullptr) == 1, "SHA-256 is not available");
}
Sha256::~Sha256() = default;

void Sha256::raw(Bytes bytes) {
  HTPIPE_CHECK(EVP_DigestUpdate(impl_->context, bytes.data(), bytes.size()) == 1, "SHA-256 update");
}

void Sha256::add(std::string_view text) {
  add(static_cast<std::int64_t>(text.size()));
  raw(as_bytes(text));
}

void Sha256::add(std::int64_t number) {
  unsigned char bytes[8];
  for (unsigned i = 0; i < 8; ++i) bytes[i] = static_cast<unsigned char>(static_cast<std::uint64_t>(number) >> (8 * i));
  raw(std::as_bytes(std::span(bytes)));
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HTPIPE_CHECK(EVP_DigestFinal_ex(impl_->context, digest, &size) == 1, "SHA-256 final");
  std::string text;
  text.reserve(2 * size);
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

std::string sha256_hex(Bytes bytes) {
  Sha256 hash;
  hash.raw(bytes);
  return hash.hex();
}

Result<std::string> sha256_file(const std::filesystem::path& path) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  return sha256_hex(file->bytes());
}

}  // namespace htpipe

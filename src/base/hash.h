// SHA-256, the digest behind the stage cache and every record of provenance.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/io.h"

namespace htpipe {

/// Streaming SHA-256 (FIPS 180-4). `add` of text is length-prefixed, so that ("ab","c") and ("a","bc") differ.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void raw(Bytes bytes);
  void add(std::string_view text);
  void add(std::int64_t number);
  /// 64 lower-case hex digits. Call once.
  [[nodiscard]] std::string hex();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

[[nodiscard]] std::string sha256_hex(Bytes bytes);
[[nodiscard]] Result<std::string> sha256_file(const std::filesystem::path& path);

}  // namespace htpipe

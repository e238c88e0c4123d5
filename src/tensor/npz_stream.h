// An .npz that is written piece by piece: arrays whose types are known beforehand and whose data come later, so that no
// array is ever whole in memory.
// Invariant: nothing stands under the final name before finish(); what an interrupted program leaves behind has a name
// that remove_left_overs knows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe {

class NpzStream {
 public:
  struct Array {
    std::string name;
    DType dtype;
    Shape shape;
  };
  /// Makes the file beside `path` and lays the arrays out. Errors: output-unwritable; data-dtype (bf16); data-format (a
  /// name that is empty, too long or given twice).
  static Result<NpzStream> create(const std::filesystem::path& path, const std::vector<Array>& arrays);
  NpzStream(NpzStream&& other) noexcept;
  NpzStream& operator=(NpzStream&&) = delete;
  /// Removes what was not finished.
  ~NpzStream();

  /// The next bytes of array number `array`. Errors: output-unwritable; more bytes than the shape has are a bug.
  Status append(std::size_t array, Bytes bytes);
  /// Writes the directory and gives the file its name. Every array must be complete.
  Status finish();

 private:
  struct Member {
    std::string name;  ///< in the archive
    std::uint64_t header_offset;
    std::uint64_t data_offset;  ///< of the array's first element
    std::uint64_t end;          ///< of the array
    std::uint64_t next;         ///< where the next bytes go
    std::uint64_t size;         ///< with the .npy header
    std::uint32_t crc32;
  };
  NpzStream(std::filesystem::path path, std::string temporary, int file)
      : path_(std::move(path)), temporary_(std::move(temporary)), file_(file) {}
  Status write(Bytes bytes, std::uint64_t offset);

  std::filesystem::path path_;
  std::string temporary_;
  int file_ = -1;
  std::vector<Member> members_;
  std::uint64_t directory_offset_ = 0;
};

}  // namespace htpipe

// The inner loops of the fixed-point kernels, one set per instruction set, chosen at run time.
// Invariant: every set gives the same integers.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/fixed/row_requant.h"

namespace htpipe::kernels {

/// Columns of a block of packed weights, and of the largest panel of blocks that one tile computes.
inline constexpr std::int64_t kProductBlock = 16;
inline constexpr std::int64_t kProductBlocks = 4;
/// Rows of a tile: few rows of many columns, or many of few.
inline constexpr std::int64_t kWideRows = 6;
inline constexpr std::int64_t kTallRows = 12;
inline constexpr std::int64_t kTallBlocks = 2;

/// Sums of one tile: out[rows][blocks * 16] = rows of bytes times packed weights. Row r is made of `pieces` runs of
/// 4 * steps bytes; run p begins at table[p * rows + r]. `weights` has 64 bytes per step (16 columns of 4), the next
/// block begins `block_bytes` further.
struct TileCall {
  const std::uint8_t* const* table;
  std::int64_t pieces;
  std::int64_t steps;
  const std::int8_t* weights;
  std::int64_t block_bytes;
  std::int32_t* out;
};
using ProductTile = void (*)(const TileCall& call);

/// Where stored bytes go when tiles requantise their sums themselves: `rows` rows, a tile after the other (their tables
/// follow each other), of `columns` columns, which are the channels from `channel` on.
struct TileBytes {
  const RowConstants* constants;
  std::int64_t channel;
  std::uint8_t* out;
  std::int64_t stride;  ///< from row to row
  std::int64_t rows;
  std::int64_t columns;
};
/// Products and requantisation of RowConstants::Form::kWhole without left shifts; TileCall::out is not used.
using ByteTiles = void (*)(const TileCall& call, const TileBytes& bytes);

/// Depthwise convolution of some pixels with requantisation: tap t of pixel p lies at rows[t] + p * advance[t].
struct DepthwiseBytes {
  const std::uint8_t* const* rows;
  const std::int64_t* advance;
  std::int64_t pixels;
  const std::int8_t* packed;
  std::int64_t taps;
  std::int64_t channels;
  const RowConstants* constants;  ///< kWhole without left shifts, or kReal
  std::uint8_t* out;
};

/// a = x * m, b = y * m …: constants of Add and Subtract on two 8-bit operands (elementwise.h).
struct AddConstants {
  std::int32_t first = 0, second = 0;  ///< multipliers
  std::int32_t constant = 0;
  int shift = 0;
  std::int32_t flip_first = 0, flip_second = 0, flip_out = 0;  ///< 128 for signed types
};
/// The same on two 16-bit operands: floor(x * first + y * second + addend), all exact in doubles.
struct WideAddConstants {
  double first = 0, second = 0, addend = 0;
  std::int32_t flip_first = 0, flip_second = 0, flip_out = 0;  ///< 32768 for signed types
};

struct FixedLoops {
  std::string_view name;
  ProductTile wide[kProductBlocks];      ///< kWideRows rows of 1, 2, 3 or 4 blocks
  ProductTile tall[kTallBlocks];         ///< kTallRows rows of 1 or 2 blocks
  ByteTiles wide_bytes[kProductBlocks];  ///< the same, where the set has them
  ByteTiles tall_bytes[kTallBlocks];

  /// low = high + (low >> 8); sums >>= drop (row_requant.h).
  void (*join_two)(std::int32_t* low, const std::int32_t* high, std::int64_t count);
  void (*drop_bits)(std::int32_t* sums, int drop, std::int64_t count);
  void (*requant_u8)(const RowConstants&, const std::int32_t* sums, std::int64_t first, std::int64_t count,
                     std::uint8_t* out);
  void (*requant_u16)(const RowConstants&, const std::int32_t* sums, std::int64_t first, std::int64_t count,
                      std::uint16_t* out);

  /// Packed taps of a depthwise convolution: `taps` weights for each channel from [taps][channels].
  std::int64_t (*depthwise_bytes)(std::int64_t taps, std::int64_t channels);
  void (*pack_depthwise)(const std::int8_t* weights, std::int64_t taps, std::int64_t channels, std::int8_t* packed);
  /// sums[c] = sum over taps of rows[t][c] * weight; `sums` has room for whole vectors of 64.
  void (*depthwise)(const std::uint8_t* const* rows, const std::int8_t* packed, std::int64_t taps,
                    std::int64_t channels, std::int32_t* sums);
  void (*depthwise_bytes_run)(const DepthwiseBytes& call);  ///< null where the set has none
  /// The same sums of 16-bit values less 32768 (`flip` = 0 when they are stored so already); weights [pairs][channels][2].
  void (*depthwise_wide)(const std::uint16_t* const* rows, const std::int16_t* pairs, std::int64_t taps,
                         std::int64_t channels, std::uint16_t flip, std::int32_t* sums);

  /// Halves of 16-bit values, unsigned view: `flip` is 32768 for signed ones.
  void (*split)(const std::uint16_t* in, std::uint16_t flip, std::int64_t count, std::uint8_t* low, std::uint8_t* high);
  void (*flip_bytes)(const std::uint8_t* in, std::uint8_t flip, std::int64_t count, std::uint8_t* out);

  void (*add)(const AddConstants&, const std::uint8_t* a, const std::uint8_t* b, std::int64_t count, std::uint8_t* out);
  void (*add_wide)(const WideAddConstants&, const std::uint16_t* a, const std::uint16_t* b, std::int64_t count,
                   std::uint16_t* out);

  /// best[i] = max(best[i], in[i]) in the type's order; `sum[i] += in[i] ^ flip`.
  void (*max_u8)(const std::uint8_t* in, std::int64_t count, std::uint8_t* best);
  void (*max_i8)(const std::int8_t* in, std::int64_t count, std::int8_t* best);
  void (*max_u16)(const std::uint16_t* in, std::int64_t count, std::uint16_t* best);
  void (*max_i16)(const std::int16_t* in, std::int64_t count, std::int16_t* best);
  void (*sum_u8)(const std::uint8_t* in, std::uint8_t flip, std::int64_t count, std::int32_t* sums);
  void (*sum_u16)(const std::uint16_t* in, std::uint16_t flip, std::int64_t count, std::int32_t* sums);
};

/// The best set of this machine; HTPIPE_ISA ("vnni", "avx512", "avx2", "generic") caps it.
[[nodiscard]] const FixedLoops& fixed_loops();
/// All sets that run on this machine, "generic" first.
[[nodiscard]] std::span<const FixedLoops* const> all_fixed_loops();

}  // namespace htpipe::kernels

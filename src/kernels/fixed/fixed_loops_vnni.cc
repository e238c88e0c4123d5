// AVX-512 with VNNI: vpdpbusd adds four products of unsigned and signed bytes to 32 bits, without saturation.
#include <immintrin.h>

#include "kernels/fixed/fixed_loops_sets.h"

namespace htpipe::kernels {
namespace vnni_loops {
#include "kernels/fixed/fixed_loops_impl.h"

template <int kRows, int kBlocks>
[[gnu::always_inline]] inline void product(const TileCall& call, __m512i (&sums)[kRows][kBlocks]) {
  for (auto& row : sums) {
    for (auto& part : row) part = _mm512_setzero_si512();
  }
  const std::int8_t* w = call.weights;
  for (std::int64_t piece = 0; piece < call.pieces; ++piece) {
    const std::uint8_t* rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = call.table[piece * kRows + r];
    for (std::int64_t step = 0; step < call.steps; ++step, w += 64) {
      __m512i weights[kBlocks];
      for (int j = 0; j < kBlocks; ++j) weights[j] = _mm512_loadu_si512(w + j * call.block_bytes);
      for (int r = 0; r < kRows; ++r) {
        std::int32_t four = 0;
        std::memcpy(&four, rows[r] + 4 * step, sizeof four);
        const __m512i x = _mm512_set1_epi32(four);
        for (int j = 0; j < kBlocks; ++j) sums[r][j] = _mm512_dpbusd_epi32(sums[r][j], x, weights[j]);
      }
    }
  }
}

/// Four vectors of 32-bit numbers, saturated to unsigned bytes, in order.
__m512i saturated(__m512i a, __m512i b, __m512i c, __m512i d) {
  // Packing works within 128 bits: its 32 bits 4 l + j are quarter l of vector j.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i packed = _mm512_packus_epi16(_mm512_packs_epi32(a, b), _mm512_packs_epi32(c, d));
  return _mm512_maskz_permutexvar_epi32(0xFFFF, order, packed);
}

/// requant_whole without left shifts, with its constants of up to four vectors of channels.
template <int kBlocks>
struct Requant {
  __m512i add[kBlocks], right[kBlocks], multiplier[kBlocks], offset[kBlocks];
  __m128i fraction;
  __m512i flip;

  Requant(const RowConstants& c, std::int64_t channel)
      : fraction(_mm_cvtsi32_si128(c.fraction)), flip(_mm512_set1_epi8(static_cast<char>(c.flip))) {
    for (int j = 0; j < kBlocks; ++j) {
      const auto load = [&](const std::vector<std::int32_t>& values) {
        return _mm512_loadu_si512(values.data() + channel + j * kProductBlock);
      };
      add[j] = load(c.add);
      right[j] = load(c.right);
      multiplier[j] = load(c.multiplier);
      offset[j] = load(c.offset);
    }
  }
  [[gnu::always_inline]] __m512i operator()(int j, __m512i sum) const {
    // Limited to 16 bits (which saturates as 2^15 does), so that the product is one of pairs with a zero.
    const __m512i a = _mm512_srav_epi32(_mm512_add_epi32(sum, add[j]), right[j]);
    const __m512i limited = _mm512_max_epi32(_mm512_min_epi32(a, _mm512_set1_epi32(32767)), _mm512_set1_epi32(-32768));
    return _mm512_sra_epi32(_mm512_dpwssd_epi32(offset[j], limited, multiplier[j]), fraction);
  }
  template <typename Row>
  [[gnu::always_inline]] __m512i bytes(const Row& sums) const {
    const __m512i zero = _mm512_setzero_si512();
    __m512i q[4] = {zero, zero, zero, zero};
    for (int j = 0; j < kBlocks; ++j) q[j] = (*this)(j, sums[j]);
    return _mm512_xor_si512(saturated(q[0], q[1], q[2], q[3]), flip);
  }
};

__mmask64 first_bytes(std::int64_t count) { return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1; }

template <int kRows, int kBlocks>
struct Tile {
  static void run(const TileCall& call) {
    __m512i sums[kRows][kBlocks];
    product(call, sums);
    for (int r = 0; r < kRows; ++r) {
      for (int j = 0; j < kBlocks; ++j) {
        _mm512_storeu_si512(call.out + (r * kBlocks + j) * kProductBlock, sums[r][j]);
      }
    }
  }
  static void run_bytes(const TileCall& call, const TileBytes& bytes) {
    __m512i sums[kRows][kBlocks];
    product(call, sums);
    const Requant<kBlocks> requant(*bytes.constants, bytes.channel);
    const __mmask64 mask = first_bytes(bytes.columns);
    for (int r = 0; r < kRows; ++r) {
      if (r < bytes.rows) _mm512_mask_storeu_epi8(bytes.out + r * bytes.stride, mask, requant.bytes(sums[r]));
    }
  }
};

// Depthwise: four taps of 64 channels are interleaved to groups of four bytes. The interleaving stays within 128 bits, so
// vector j of four has channels 16 l + 4 j … + 3 in its quarter l; the weights are packed so, and the sums are put in
// order at the end.

constexpr std::int64_t kChannels = 64;

/// Quarters of a and b as two bits each of kPick say. With a mask of ones, because GCC 12 warns of the plain intrinsic.
template <int kPick>
__m512i quarters(__m512i a, __m512i b) {
  return _mm512_maskz_shuffle_i32x4(0xFFFF, a, b, kPick);
}

std::int64_t depthwise_bytes(std::int64_t taps, std::int64_t channels) {
  return (taps + 3) / 4 * ((channels + kChannels - 1) / kChannels) * kChannels * 4;
}

void pack_depthwise(const std::int8_t* weights, std::int64_t taps, std::int64_t channels, std::int8_t* packed) {
  for (std::int64_t block = 0; block < channels; block += kChannels) {
    for (std::int64_t tap = 0; tap < taps; tap += 4) {
      for (std::int64_t i = 0; i < kChannels; ++i) {
        const std::int64_t channel = block + i / 4 % 4 * 16 + i / 16 * 4 + i % 4;
        for (std::int64_t t = tap; t < tap + 4; ++t) {
          *packed++ = t < taps && channel < channels ? weights[t * channels + channel] : std::int8_t{0};
        }
      }
    }
  }
}

void depthwise(const std::uint8_t* const* rows, const std::int8_t* packed, std::int64_t taps, std::int64_t channels,
               std::int32_t* sums) {
  for (std::int64_t c = 0; c < channels; c += kChannels) {
    const std::int64_t left = channels - c;
    const __mmask64 mask = first_bytes(left);
    __m512i sum[4];
    for (auto& part : sum) part = _mm512_setzero_si512();
    for (std::int64_t tap = 0; tap < taps; tap += 4, packed += kChannels * 4) {
      const auto row = [&](std::int64_t t) {
        // A missing tap has weights of zero.
        return _mm512_maskz_loadu_epi8(mask, rows[t < taps ? t : tap] + c);
      };
      const __m512i x0 = row(tap);
      const __m512i x1 = row(tap + 1);
      const __m512i x2 = row(tap + 2);
      const __m512i x3 = row(tap + 3);
      const __m512i low01 = _mm512_unpacklo_epi8(x0, x1);
      const __m512i high01 = _mm512_unpackhi_epi8(x0, x1);
      const __m512i low23 = _mm512_unpacklo_epi8(x2, x3);
      const __m512i high23 = _mm512_unpackhi_epi8(x2, x3);
      const auto weights = [&](int j) { return _mm512_loadu_si512(packed + j * 64); };
      sum[0] = _mm512_dpbusd_epi32(sum[0], _mm512_unpacklo_epi16(low01, low23), weights(0));
      sum[1] = _mm512_dpbusd_epi32(sum[1], _mm512_unpackhi_epi16(low01, low23), weights(1));
      sum[2] = _mm512_dpbusd_epi32(sum[2], _mm512_unpacklo_epi16(high01, high23), weights(2));
      sum[3] = _mm512_dpbusd_epi32(sum[3], _mm512_unpackhi_epi16(high01, high23), weights(3));
    }
    // The transpose of four by four quarters.
    const __m512i even01 = quarters<0x88>(sum[0], sum[1]);
    const __m512i odd01 = quarters<0xDD>(sum[0], sum[1]);
    const __m512i even23 = quarters<0x88>(sum[2], sum[3]);
    const __m512i odd23 = quarters<0xDD>(sum[2], sum[3]);
    _mm512_storeu_si512(sums + c, quarters<0x88>(even01, even23));
    _mm512_storeu_si512(sums + c + 16, quarters<0x88>(odd01, odd23));
    _mm512_storeu_si512(sums + c + 32, quarters<0xDD>(even01, even23));
    _mm512_storeu_si512(sums + c + 48, quarters<0xDD>(odd01, odd23));
  }
}

}  // namespace vnni_loops

FixedLoops fixed_loops_vnni() {
  FixedLoops loops = vnni_loops::plain_loops("vnni");
  vnni_loops::set_tiles<vnni_loops::Tile>(loops);
  loops.wide_bytes[0] = vnni_loops::Tile<kWideRows, 1>::run_bytes;
  loops.wide_bytes[1] = vnni_loops::Tile<kWideRows, 2>::run_bytes;
  loops.wide_bytes[2] = vnni_loops::Tile<kWideRows, 3>::run_bytes;
  loops.wide_bytes[3] = vnni_loops::Tile<kWideRows, 4>::run_bytes;
  loops.tall_bytes[0] = vnni_loops::Tile<kTallRows, 1>::run_bytes;
  loops.tall_bytes[1] = vnni_loops::Tile<kTallRows, 2>::run_bytes;
  loops.depthwise_bytes = vnni_loops::depthwise_bytes;
  loops.pack_depthwise = vnni_loops::pack_depthwise;
  loops.depthwise = vnni_loops::depthwise;
  loops.depthwise_wide = fixed_loops_avx2().depthwise_wide;
  return loops;
}

}  // namespace htpipe::kernels

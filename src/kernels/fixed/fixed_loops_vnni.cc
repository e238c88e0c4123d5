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
[[gnu::always_inline]] inline __m512i saturated(__m512i a, __m512i b, __m512i c, __m512i d) {
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

[[gnu::always_inline]] inline __mmask64 first_bytes(std::int64_t count) {
  return count >= 64 ? ~__mmask64{0} : (__mmask64{1} << count) - 1;
}

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
    const Requant<kBlocks> requant(*bytes.constants, bytes.channel);
    const __mmask64 mask = first_bytes(bytes.columns);
    TileCall tile = call;
    std::uint8_t* out = bytes.out;
    for (std::int64_t row = 0; row < bytes.rows; row += kRows, tile.table += tile.pieces * kRows) {
      __m512i sums[kRows][kBlocks];
      product(tile, sums);
      for (int r = 0; r < kRows; ++r, out += bytes.stride) {
        if (row + r < bytes.rows) _mm512_mask_storeu_epi8(out, mask, requant.bytes(sums[r]));
      }
    }
  }
};

// Depthwise: four taps of 64 channels are interleaved to groups of four bytes. The interleaving stays within 128 bits, so
// vector j of four has channels 16 l + 4 j … + 3 in its quarter l; the weights are packed so, and the sums are put in
// order at the end.

constexpr std::int64_t kChannels = 64;

/// Quarters of a and b as two bits each of kPick say. With a mask of ones, because GCC 12 warns of the plain intrinsic.
template <int kPick>
[[gnu::always_inline]] inline __m512i quarters(__m512i a, __m512i b) {
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

/// Adds four taps of 64 channels to the sums; a missing tap has weights of zero, so any row stands for it.
template <typename Row>
[[gnu::always_inline]] inline void add_taps(const Row& row, const std::int8_t* packed, __m512i (&sum)[4]) {
  const __m512i x0 = row(0);
  const __m512i x1 = row(1);
  const __m512i x2 = row(2);
  const __m512i x3 = row(3);
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

/// The transpose of four by four quarters: from the order of channels to that of the sums, and back.
[[gnu::always_inline]] inline void transpose_quarters(__m512i (&v)[4]) {
  const __m512i even01 = quarters<0x88>(v[0], v[1]);
  const __m512i odd01 = quarters<0xDD>(v[0], v[1]);
  const __m512i even23 = quarters<0x88>(v[2], v[3]);
  const __m512i odd23 = quarters<0xDD>(v[2], v[3]);
  v[0] = quarters<0x88>(even01, even23);
  v[1] = quarters<0x88>(odd01, odd23);
  v[2] = quarters<0xDD>(even01, even23);
  v[3] = quarters<0xDD>(odd01, odd23);
}

void depthwise(const std::uint8_t* const* rows, const std::int8_t* packed, std::int64_t taps, std::int64_t channels,
               std::int32_t* sums) {
  for (std::int64_t c = 0; c < channels; c += kChannels) {
    const __mmask64 mask = first_bytes(channels - c);
    __m512i sum[4];
    for (auto& part : sum) part = _mm512_setzero_si512();
    for (std::int64_t tap = 0; tap < taps; tap += 4, packed += kChannels * 4) {
      add_taps([&](int i) { return _mm512_maskz_loadu_epi8(mask, rows[tap + i < taps ? tap + i : tap] + c); }, packed,
               sum);
    }
    transpose_quarters(sum);
    for (int j = 0; j < 4; ++j) _mm512_storeu_si512(sums + c + j * 16, sum[j]);
  }
}

/// requant_whole of 64 channels in the order of depthwise sums.
struct WholeRequant {
  __m512i add[4], right[4], multiplier[4], offset[4];
  __m128i fraction;
  WholeRequant(const RowConstants& c, std::int64_t channel) : fraction(_mm_cvtsi32_si128(c.fraction)) {
    const auto load = [channel](const std::vector<std::int32_t>& values, __m512i(&to)[4]) {
      for (int j = 0; j < 4; ++j) to[j] = _mm512_loadu_si512(values.data() + channel + j * 16);
      transpose_quarters(to);
    };
    load(c.add, add);
    load(c.right, right);
    load(c.multiplier, multiplier);
    load(c.offset, offset);
  }
  [[gnu::always_inline]] __m512i operator()(int j, __m512i sum) const {
    const __m512i a = _mm512_srav_epi32(_mm512_add_epi32(sum, add[j]), right[j]);
    const __m512i limited = _mm512_max_epi32(_mm512_min_epi32(a, _mm512_set1_epi32(32767)), _mm512_set1_epi32(-32768));
    return _mm512_sra_epi32(_mm512_dpwssd_epi32(offset[j], limited, multiplier[j]), fraction);
  }
};

/// requant_real of 8-bit results, which have no scale and no limit, the same way.
struct RealRequant {
  __m512i add[4];
  __m512d factor[4][2], addend[4][2];
  RealRequant(const RowConstants& c, std::int64_t channel) {
    for (int j = 0; j < 4; ++j) add[j] = _mm512_loadu_si512(c.add.data() + channel + j * 16);
    transpose_quarters(add);
    const auto load = [channel](const std::vector<double>& values, __m512d(&to)[4][2]) {
      for (int j = 0; j < 4; ++j) {
        for (int half = 0; half < 2; ++half) {
          const double* at = values.data() + channel + half * 32 + j * 4;
          double eight[8];
          std::memcpy(eight, at, 4 * sizeof(double));
          std::memcpy(eight + 4, at + 16, 4 * sizeof(double));
          to[j][half] = _mm512_loadu_pd(eight);
        }
      }
    };
    load(c.factor, factor);
    load(c.addend, addend);
  }
  [[gnu::always_inline]] __m512i operator()(int j, __m512i sum) const {
    const __m512i a = _mm512_add_epi32(sum, add[j]);
    const auto half = [&](__m256i part, int h) {
      const __m512d q = _mm512_add_pd(_mm512_mul_pd(_mm512_maskz_cvtepi32_pd(0xFF, part), factor[j][h]), addend[j][h]);
      // What is far below zero becomes the lowest number.
      return _mm512_maskz_cvttpd_epi32(0xFF, _mm512_maskz_min_pd(0xFF, q, _mm512_set1_pd(255.5)));
    };
    return _mm512_inserti64x4(_mm512_castsi256_si512(half(_mm512_castsi512_si256(a), 0)),
                              half(_mm512_maskz_extracti64x4_epi64(0xFF, a, 1), 1), 1);
  }
};

/// kGroups groups of four taps; 0 = as many as there are.
template <int kGroups, typename Requant>
void depthwise_run(const DepthwiseBytes& call) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(call.constants->flip));
  const std::int64_t taps = call.taps;
  const std::int64_t groups = kGroups > 0 ? kGroups : (taps + 3) / 4;
  const std::int8_t* packed = call.packed;
  for (std::int64_t c = 0; c < call.channels; c += kChannels, packed += groups * kChannels * 4) {
    const __mmask64 mask = first_bytes(call.channels - c);
    const Requant requant(*call.constants, c);
    std::uint8_t* out = call.out + c;
    for (std::int64_t pixel = 0; pixel < call.pixels; ++pixel, out += call.channels) {
      __m512i sum[4];
      for (auto& part : sum) part = _mm512_setzero_si512();
      for (std::int64_t group = 0; group < groups; ++group) {
        const auto row = [&](int i) {
          const std::int64_t tap = group * 4 + i < taps ? group * 4 + i : group * 4;
          return _mm512_maskz_loadu_epi8(mask, call.rows[tap] + pixel * call.advance[tap] + c);
        };
        add_taps(row, packed + group * kChannels * 4, sum);
      }
      const __m512i low = _mm512_packs_epi32(requant(0, sum[0]), requant(1, sum[1]));
      const __m512i high = _mm512_packs_epi32(requant(2, sum[2]), requant(3, sum[3]));
      _mm512_mask_storeu_epi8(out, mask, _mm512_xor_si512(_mm512_packus_epi16(low, high), flip));
    }
  }
}

void depthwise_bytes_run(const DepthwiseBytes& call) {
  const bool whole = call.constants->form == RowConstants::Form::kWhole;
  if (call.taps == 9) return whole ? depthwise_run<3, WholeRequant>(call) : depthwise_run<3, RealRequant>(call);
  whole ? depthwise_run<0, WholeRequant>(call) : depthwise_run<0, RealRequant>(call);
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
  loops.depthwise_bytes_run = vnni_loops::depthwise_bytes_run;
  loops.depthwise_wide = fixed_loops_avx2().depthwise_wide;
  return loops;
}

}  // namespace htpipe::kernels

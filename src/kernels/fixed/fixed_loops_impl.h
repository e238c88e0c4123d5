// Plain loops that the compiler turns into vectors, for each instruction set anew.
// Only fixed_loops_*.cc include this, each inside a namespace of its own: the linker must not take one's for another's.

template <typename T>
[[nodiscard]] inline T limited(T x, T low, T high) {
  const T above = x < low ? low : x;
  return above > high ? high : above;
}

inline void join_two(std::int32_t* __restrict low, const std::int32_t* __restrict high, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) low[i] = high[i] + (low[i] >> 8);
}

inline void drop_bits(std::int32_t* sums, int drop, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] >>= drop;
}

/// Sums beyond this are clamped in the end: the multiplier is at least 2^-5 of the result's unit (row_requant.cc).
inline constexpr std::int32_t kWholeLimit = 1 << 15;

template <typename Out>
void requant_whole(const RowConstants& c, const std::int32_t* __restrict sums, std::int64_t first, std::int64_t count,
                   Out* __restrict out) {
  const std::int32_t* __restrict add = c.add.data() + first;
  const std::int32_t* __restrict limits = c.limits.data() + first;
  const std::int32_t* __restrict left = c.left.data() + first;
  const std::int32_t* __restrict right = c.right.data() + first;
  const std::int32_t* __restrict multiplier = c.multiplier.data() + first;
  const std::int32_t* __restrict offset = c.offset.data() + first;
  const int fraction = c.fraction;
  const std::int32_t high = c.high;
  const std::int32_t flip = c.flip;
  if (c.shifts_left) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int32_t a = limited(sums[i] + add[i], -limits[i], limits[i]) << left[i] >> right[i];
      const std::int32_t q = (limited(a, -kWholeLimit, kWholeLimit) * multiplier[i] + offset[i]) >> fraction;
      out[i] = static_cast<Out>(limited(q, 0, high) ^ flip);
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t a = (sums[i] + add[i]) >> right[i];
    const std::int32_t q = (limited(a, -kWholeLimit, kWholeLimit) * multiplier[i] + offset[i]) >> fraction;
    out[i] = static_cast<Out>(limited(q, 0, high) ^ flip);
  }
}

template <typename Out>
void requant_real(const RowConstants& c, const std::int32_t* __restrict sums, std::int64_t first, std::int64_t count,
                  Out* __restrict out) {
  const std::int32_t* __restrict add = c.add.data() + first;
  const std::int32_t* __restrict right = c.right.data() + first;
  const double* __restrict scale = c.scale.data() + first;
  const double* __restrict factor = c.factor.data() + first;
  const double* __restrict addend = c.addend.data() + first;
  const double limit = c.limit;
  const double high = static_cast<double>(c.high) + 0.5;
  const std::int32_t flip = c.flip;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto a = static_cast<double>((sums[i] + add[i]) >> right[i]);
    const double q = limited(a * scale[i], -limit, limit) * factor[i] + addend[i];
    // Below zero the clamp decides, above it truncation is the floor.
    out[i] = static_cast<Out>(static_cast<std::int32_t>(limited(q, 0.0, high)) ^ flip);
  }
}

template <typename Out>
void requant_exact(const RowConstants& c, const std::int32_t* __restrict sums, std::int64_t first, std::int64_t count,
                   Out* __restrict out) {
  const std::int32_t* __restrict add = c.add.data() + first;
  const float* __restrict factor = c.exact_factor.data() + first;
  const float* __restrict bias = c.exact_bias.data() + first;
  const float zero = c.zero;
  const auto high = static_cast<float>(c.high);
  const std::int32_t flip = c.flip;
  // Added to a number below 2^22 and taken off again it leaves the nearest integer, halves to even.
  constexpr float kRounds = 12582912.0F;
  for (std::int64_t i = 0; i < count; ++i) {
    const float real = (static_cast<float>(sums[i] + add[i]) + bias[i]) * factor[i] + zero;
    const float q = limited(real, 0.0F, high) + kRounds - kRounds;
    out[i] = static_cast<Out>(static_cast<std::int32_t>(q) ^ flip);
  }
}

template <typename Out>
void requant(const RowConstants& c, const std::int32_t* sums, std::int64_t first, std::int64_t count, Out* out) {
  switch (c.form) {
    case RowConstants::Form::kWhole:
      return requant_whole(c, sums, first, count, out);
    case RowConstants::Form::kReal:
      return requant_real(c, sums, first, count, out);
    default:
      return requant_exact(c, sums, first, count, out);
  }
}

inline void split(const std::uint16_t* __restrict in, std::uint16_t flip, std::int64_t count,
                  std::uint8_t* __restrict low, std::uint8_t* __restrict high) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<std::uint16_t>(in[i] ^ flip);
    low[i] = static_cast<std::uint8_t>(x);
    high[i] = static_cast<std::uint8_t>(x >> 8);
  }
}

inline void flip_bytes(const std::uint8_t* __restrict in, std::uint8_t flip, std::int64_t count,
                       std::uint8_t* __restrict out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = in[i] ^ flip;
}

// The result may take the place of an operand: nothing but the same element may overlap.
inline void add(const AddConstants& c, const std::uint8_t* a, const std::uint8_t* b, std::int64_t count,
                std::uint8_t* out) {
  const AddConstants k = c;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t sum = (a[i] ^ k.flip_first) * k.first + (b[i] ^ k.flip_second) * k.second;
    out[i] = static_cast<std::uint8_t>(limited(((sum >> 8) + k.constant) >> k.shift, 0, 255) ^ k.flip_out);
  }
}

inline void add_wide(const WideAddConstants& c, const std::uint16_t* a, const std::uint16_t* b, std::int64_t count,
                     std::uint16_t* out) {
  const WideAddConstants k = c;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<double>(a[i] ^ k.flip_first);
    const auto y = static_cast<double>(b[i] ^ k.flip_second);
    const double q = limited(x * k.first + y * k.second + k.addend, 0.0, 65535.5);
    out[i] = static_cast<std::uint16_t>(static_cast<std::int32_t>(q) ^ k.flip_out);
  }
}

template <typename T>
void maximum(const T* __restrict in, std::int64_t count, T* __restrict best) {
  for (std::int64_t i = 0; i < count; ++i) best[i] = in[i] > best[i] ? in[i] : best[i];
}

template <typename T>
void add_up(const T* __restrict in, T flip, std::int64_t count, std::int32_t* __restrict sums) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<T>(in[i] ^ flip);
}

/// Depthwise weights [pairs of taps][channels][2] of 16 bits; a missing tap is zero.
inline std::int64_t pairs_bytes(std::int64_t taps, std::int64_t channels) { return (taps + 1) / 2 * channels * 4; }
inline void pack_pairs(const std::int8_t* weights, std::int64_t taps, std::int64_t channels, std::int8_t* packed) {
  auto* out = reinterpret_cast<std::int16_t*>(packed);
  for (std::int64_t tap = 0; tap < taps; tap += 2) {
    for (std::int64_t c = 0; c < channels; ++c) {
      *out++ = weights[tap * channels + c];
      *out++ = tap + 1 < taps ? weights[(tap + 1) * channels + c] : std::int8_t{0};
    }
  }
}

/// The end of a row, and all of it without vector instructions.
template <typename T>
void depthwise_from(std::int64_t first, const T* const* rows, const std::int16_t* pairs, std::int64_t taps,
                    std::int64_t channels, T flip, std::int32_t offset, std::int32_t* __restrict sums) {
  for (std::int64_t c = first; c < channels; ++c) sums[c] = 0;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const T* __restrict row = rows[tap];
    const std::int16_t* __restrict weights = pairs + (tap / 2) * channels * 2 + tap % 2;
    for (std::int64_t c = first; c < channels; ++c) {
      sums[c] += (static_cast<std::int32_t>(static_cast<T>(row[c] ^ flip)) - offset) * weights[2 * c];
    }
  }
}

/// Everything that needs no intrinsics; the tiles and the depthwise loops are for the caller to set.
inline FixedLoops plain_loops(std::string_view name) {
  FixedLoops loops = {};
  loops.name = name;
  loops.join_two = join_two;
  loops.drop_bits = drop_bits;
  loops.requant_u8 = requant<std::uint8_t>;
  loops.requant_u16 = requant<std::uint16_t>;
  loops.depthwise_bytes = pairs_bytes;
  loops.pack_depthwise = pack_pairs;
  loops.split = split;
  loops.flip_bytes = flip_bytes;
  loops.add = add;
  loops.add_wide = add_wide;
  loops.max_u8 = maximum<std::uint8_t>;
  loops.max_i8 = maximum<std::int8_t>;
  loops.max_u16 = maximum<std::uint16_t>;
  loops.max_i16 = maximum<std::int16_t>;
  loops.sum_u8 = add_up<std::uint8_t>;
  loops.sum_u16 = add_up<std::uint16_t>;
  return loops;
}

/// Sets the tiles from a template over rows and blocks.
template <template <int, int> class Tile>
void set_tiles(FixedLoops& loops) {
  loops.wide[0] = Tile<kWideRows, 1>::run;
  loops.wide[1] = Tile<kWideRows, 2>::run;
  loops.wide[2] = Tile<kWideRows, 3>::run;
  loops.wide[3] = Tile<kWideRows, 4>::run;
  loops.tall[0] = Tile<kTallRows, 1>::run;
  loops.tall[1] = Tile<kTallRows, 2>::run;
}

#include "kernels/fixed/curves.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/fixed/rounding.h"

namespace htpipe::kernels {
namespace {

/// 1024 / sqrt(m / 2^14) for m from 2^14 to 2^16, by lines over 1024 each, in 2^-26.
struct Line {
  std::int64_t start;
  std::int64_t fall;
};
constexpr std::array<Line, 48> kReciprocalRoots = {{
    {68728008097, 2000203}, {66670913723, 1816407}, {64819686896, 1727769}, {63080017775, 1560723},
    {61496571234, 1481708}, {59995445844, 1331000}, {58627887565, 1259702}, {57345347912, 1191343},
    {56140704967, 1124758}, {55008115966, 1061522}, {53940202341, 999863},  {52931589945, 941357},
    {51975788464, 884624},  {51067324081, 830650},  {50200465186, 778629},  {49403047099, 778629},
    {48623623748, 729384},  {47872369572, 681699},  {47174302017, 681321},  {46493477104, 635623},
    {45829977424, 592864},  {45222892106, 592667},  {44613861690, 551303},  {44049239092, 551287},
    {43486501884, 511713},  {42962044321, 511697},  {42438039636, 474669},  {41952021316, 474652},
    {41458148053, 438625},  {41008921648, 439200},  {40559449296, 439200},  {40123627828, 405128},
    {39708734072, 405325},  {39287524626, 373206},  {38905333108, 373222},  {38523134486, 373206},
    {38140950053, 342877},  {37789714633, 343058},  {37438411757, 342877},  {37085491411, 314306},
    {36763631863, 314322},  {36441594773, 314306},  {36108751707, 287310},  {35814323332, 287327},
    {35520043819, 287507},  {35225571887, 287327},  {34930012691, 262105},  {34661577235, 262105},
}};

/// What is at `real`, half up.
std::int64_t nearest(double real, const Grid& to) {
  return static_cast<std::int64_t>(
      std::clamp(std::floor(real / to.scale + static_cast<double>(to.zero) + 0.5), 0.0, static_cast<double>(to.high)));
}

/// The error function in 2^-12 over a unit of its argument: cubics in the part behind the point.
using Cubic = std::array<double, 4>;
constexpr std::array<Cubic, 5> kError = {{{0, 4746, -676, -624},
                                          {3446.4, 1716.3, -1682.7, 599.3},
                                          {4079.8, 55.6, -62.8, 23.6},
                                          {4096.47, -10.2, 24.5, -17.7},
                                          {4094, 0, 0, 0}}};

}  // namespace

Unary wide_root(const Grid& from, const Grid& to) {
  const Mantissa gain = mantissa(std::sqrt(from.scale) / to.scale, 15);
  return [=](std::int64_t q) {
    const std::int64_t x = q - from.zero;
    if (x <= 0) return clamp_to(to.zero, 0, to.high);
    int doublings = 0;  // of the root
    std::int64_t m = x;
    while (m < 16384) {
      m *= 4;
      ++doublings;
    }
    const Line& line = kReciprocalRoots[static_cast<std::size_t>((m - 16384) >> 10)];
    const std::int64_t reciprocal = (line.start - line.fall * ((m - 16384) & 1023)) >> 26;
    // x / sqrt(x): the reciprocal has 10 + 7 fractional bits.
    const int bits = gain.shift + 17 - doublings;
    const std::int64_t product = x * reciprocal * gain.value;
    return clamp_to(shift(product + shift(1, 1 - bits), bits) + to.zero, 0, to.high);
  };
}

Unary wide_softplus(double beta, double threshold, const Grid& from, const Grid& to) {
  const double linear = std::min(5.0, threshold);
  return [=](std::int64_t q) {
    const double x = static_cast<double>(q - from.zero) * from.scale;
    const double t = beta * x;
    if (t >= linear) return nearest(x, to);
    if (t < -2) return nearest(std::exp(t) / beta, to);
    constexpr std::array<double, 5> kPowers = {0.70310867, 0.51270465, 0.10882613, -4.61085e-3, -6.66428e-4};
    double y = 0;
    for (std::size_t i = kPowers.size(); i-- > 0;) y = y * t + kPowers[i];
    return nearest(y / beta, to);
  };
}

Unary wide_gelu(const Grid& from, const Grid& to) {
  return [=](std::int64_t q) {
    const double x = static_cast<double>(q - from.zero) * from.scale;
    const double u = std::fabs(x) * 0.70710678118654752440;
    const double unit = std::min(std::floor(u), 4.0);
    const double t = std::min(u - unit, 1.0);
    const Cubic& c = kError[static_cast<std::size_t>(unit)];
    const double error = std::copysign(c[0] + t * (c[1] + t * (c[2] + t * c[3])), x);
    const double share = std::floor((4096 + error) / 2 + 0.5) / 4096;
    return nearest(x * share, to);
  };
}

}  // namespace htpipe::kernels

#include "ops/binary_operations.h"

#include <cmath>
#include <limits>
#include <type_traits>

namespace htpipe::ops {
namespace {

using I64 = std::int64_t;
using U64 = std::uint64_t;

template <typename T>
constexpr bool kReal = std::is_floating_point_v<T>;

// Integers wrap as the hardware's do; unsigned arithmetic says so in C++.
template <typename T>
T wrap(U64 value) {
  return static_cast<T>(value);
}

struct Add {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (kReal<T>) return a + b;
    return wrap<T>(static_cast<U64>(a) + static_cast<U64>(b));
  }
};
struct Subtract {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (kReal<T>) return a - b;
    return wrap<T>(static_cast<U64>(a) - static_cast<U64>(b));
  }
};
struct Multiply {
  template <typename T>
  T operator()(T a, T b) const {
    if constexpr (kReal<T>) return a * b;
    return wrap<T>(static_cast<U64>(a) * static_cast<U64>(b));
  }
};
struct SquaredDifference {
  template <typename T>
  T operator()(T a, T b) const {
    const T difference = Subtract()(a, b);
    return Multiply()(difference, difference);
  }
};

// A division of integers by 0 gives 0 here: it must not end the program.
struct Divide {
  float operator()(float a, float b) const { return a / b; }
  I64 operator()(I64 a, I64 b) const {
    if (b == 0) return 0;
    return b == -1 ? wrap<I64>(0 - static_cast<U64>(a)) : a / b;
  }
};
struct DivideDouble {
  double operator()(double a, double b) const { return a / b; }
};
struct Fmod {
  float operator()(float a, float b) const { return std::fmod(a, b); }
  I64 operator()(I64 a, I64 b) const { return b == 0 || b == -1 ? 0 : a % b; }
};
struct Mod {
  template <typename T>
  T operator()(T a, T b) const {
    const T rest = Fmod()(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};
struct FloorDiv {
  /// The quotient that belongs to Mod: floor(a / b) is one too large where a / b rounds up to a whole number.
  float operator()(float a, float b) const {
    if (b == 0.0F) return a / b;
    const float rest = std::fmod(a, b);
    float quotient = (a - rest) / b;
    if (rest != 0.0F && (rest < 0.0F) != (b < 0.0F)) quotient -= 1.0F;
    if (quotient == 0.0F) return std::copysign(0.0F, a / b);
    const float whole = std::floor(quotient);
    return quotient - whole > 0.5F ? whole + 1.0F : whole;
  }
  I64 operator()(I64 a, I64 b) const {
    const I64 quotient = Divide()(a, b);
    const I64 rest = Fmod()(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
  }
};

// A NaN in either operand goes on; of equal operands the first is taken.
struct Maximum {
  template <typename T>
  T operator()(T a, T b) const {
    return (static_cast<int>(a < b) | static_cast<int>(b != b)) != 0 ? b : a;
  }
};
struct Minimum {
  template <typename T>
  T operator()(T a, T b) const {
    return (static_cast<int>(b < a) | static_cast<int>(b != b)) != 0 ? b : a;
  }
};

struct Power {
  // In double: the C library's float function differs in the last bit between machines.
  float operator()(float a, float b) const {
    return static_cast<float>(std::pow(static_cast<double>(a), static_cast<double>(b)));
  }
  I64 operator()(I64 a, I64 b) const {
    if (b < 0) {  // a fraction, cut off
      if (a == 1) return 1;
      if (a == -1) return b % 2 == 0 ? 1 : -1;
      return 0;
    }
    U64 result = 1;
    U64 base = static_cast<U64>(a);
    for (U64 rest = static_cast<U64>(b); rest != 0; rest >>= 1) {
      if ((rest & 1U) != 0) result *= base;
      base *= base;
    }
    return wrap<I64>(result);
  }
};
struct Atan2 {
  float operator()(float a, float b) const {
    return static_cast<float>(std::atan2(static_cast<double>(a), static_cast<double>(b)));
  }
};

struct And {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
// Shifts by less than 0 or by all bits move everything out.
struct ShiftLeft {
  I64 operator()(I64 a, I64 b) const { return b < 0 || b > 63 ? 0 : wrap<I64>(static_cast<U64>(a) << b); }
};
struct ShiftRight {
  I64 operator()(I64 a, I64 b) const { return a >> (b < 0 || b > 63 ? 63 : b); }
};

struct Equal {
  template <typename T>
  std::uint8_t operator()(T a, T b) const {
    return a == b ? 1 : 0;
  }
};
struct NotEqual {
  template <typename T>
  std::uint8_t operator()(T a, T b) const {
    return a != b ? 1 : 0;
  }
};
struct Less {
  template <typename T>
  std::uint8_t operator()(T a, T b) const {
    return a < b ? 1 : 0;
  }
};
struct LessEqual {
  template <typename T>
  std::uint8_t operator()(T a, T b) const {
    return a <= b ? 1 : 0;
  }
};
struct Greater {
  template <typename T>
  std::uint8_t operator()(T a, T b) const {
    return a > b ? 1 : 0;
  }
};
struct GreaterEqual {
  template <typename T>
  std::uint8_t operator()(T a, T b) const {
    return a >= b ? 1 : 0;
  }
};

template <typename T, typename Function>
void loop(const BroadcastPlan& plan, const void* a, const void* b, void* out) {
  using Out = std::invoke_result_t<Function, T, T>;
  map_pairs(plan, static_cast<const T*>(a), static_cast<const T*>(b), static_cast<Out*>(out), Function());
}
template <typename F>
constexpr BinaryOperation::Loop kOnReal = loop<float, F>;
template <typename F>
constexpr BinaryOperation::Loop kOnInteger = loop<I64, F>;
template <typename F>
constexpr BinaryOperation::Loop kOnLogic = loop<std::uint8_t, F>;
constexpr BinaryOperation::Loop kNone = nullptr;

constexpr BinaryOperation kOperations[] = {
    {"add", 0, false, kOnReal<Add>, kOnInteger<Add>, kOnLogic<Or>},
    {"and", 1, false, kNone, kNone, kOnLogic<And>},
    {"atan2", -1, false, kOnReal<Atan2>, kNone, kNone},
    {"bit_and", -1, false, kNone, kOnInteger<And>, kOnLogic<And>},
    {"bit_or", -1, false, kNone, kOnInteger<Or>, kOnLogic<Or>},
    {"bit_xor", -1, false, kNone, kOnInteger<Xor>, kOnLogic<Xor>},
    {"divide", 2, false, kOnReal<Divide>, kOnInteger<Divide>, kNone, true},
    {"equal", 3, true, kOnReal<Equal>, kOnInteger<Equal>, kOnLogic<Equal>},
    {"floor_div", 4, false, kOnReal<FloorDiv>, kOnInteger<FloorDiv>, kNone, true},
    {"fmod", 5, false, kOnReal<Fmod>, kOnInteger<Fmod>, kNone, true},
    {"greater", 6, true, kOnReal<Greater>, kOnInteger<Greater>, kOnLogic<Greater>, true},
    {"greater_equal", 7, true, kOnReal<GreaterEqual>, kOnInteger<GreaterEqual>, kOnLogic<GreaterEqual>, true},
    {"less", 8, true, kOnReal<Less>, kOnInteger<Less>, kOnLogic<Less>, true},
    {"less_equal", 9, true, kOnReal<LessEqual>, kOnInteger<LessEqual>, kOnLogic<LessEqual>, true},
    {"maximum", 10, false, kOnReal<Maximum>, kOnInteger<Maximum>, kOnLogic<Or>, true},
    {"minimum", 11, false, kOnReal<Minimum>, kOnInteger<Minimum>, kOnLogic<And>, true},
    {"mod", 12, false, kOnReal<Mod>, kOnInteger<Mod>, kNone, true},
    {"multiply", 13, false, kOnReal<Multiply>, kOnInteger<Multiply>, kOnLogic<And>},
    {"not_equal", 14, true, kOnReal<NotEqual>, kOnInteger<NotEqual>, kOnLogic<NotEqual>},
    {"or", 15, false, kNone, kNone, kOnLogic<Or>},
    {"power", 16, false, kOnReal<Power>, kOnInteger<Power>, kNone, true},
    {"shift_left", -1, false, kNone, kOnInteger<ShiftLeft>, kNone, true},
    {"shift_right", -1, false, kNone, kOnInteger<ShiftRight>, kNone, true},
    {"squared_difference", 17, false, kOnReal<SquaredDifference>, kOnInteger<SquaredDifference>, kNone},
    {"subtract", 18, false, kOnReal<Subtract>, kOnInteger<Subtract>, kNone},
    {"xor", 19, false, kNone, kNone, kOnLogic<Xor>},
};

}  // namespace

BinaryOperation::Loop double_loop(std::string_view name) {
  struct Row {
    std::string_view name;
    BinaryOperation::Loop loop;
  };
  static constexpr Row kRows[] = {
      {"add", loop<double, Add>},
      {"divide", loop<double, DivideDouble>},
      {"equal", loop<double, Equal>},
      {"greater", loop<double, Greater>},
      {"less", loop<double, Less>},
      {"greater_equal", loop<double, GreaterEqual>},
      {"maximum", loop<double, Maximum>},
      {"less_equal", loop<double, LessEqual>},
      {"minimum", loop<double, Minimum>},
      {"multiply", loop<double, Multiply>},
      {"not_equal", loop<double, NotEqual>},
      {"subtract", loop<double, Subtract>},
  };
  for (const Row& row : kRows) {
    if (row.name == name) return row.loop;
  }
  return nullptr;
}

std::span<const BinaryOperation> binary_operations() { return kOperations; }

const BinaryOperation* find_binary_operation(std::string_view name) {
  for (const BinaryOperation& operation : kOperations) {
    if (operation.name == name) return &operation;
  }
  return nullptr;
}

}  // namespace htpipe::ops

// Oracle: sympy's values of the same expressions, as torch.export prints them.
#include "import/pt2/symbols.h"

#include <gtest/gtest.h>

namespace htpipe::pt2 {
namespace {

std::optional<std::int64_t> value(std::string_view expression, const SymbolValues& symbols = {{"s77", 5}, {"s81", 7}}) {
  std::set<std::string> missing;
  return evaluate(expression, symbols, missing);
}

TEST(Symbols, ReadsTorchsSpelling) {
  EXPECT_EQ(value("Symbol('s77', positive=True, integer=True)"), 5);
  EXPECT_EQ(value("Mul(Integer(2), Symbol('s81', positive=True, integer=True))"), 14);
  EXPECT_EQ(value("Add(Mul(Integer(-1), Symbol('s77', integer=True)), Integer(40))"), 35);
  EXPECT_EQ(value("FloorDiv(Mul(Symbol('s77'), Symbol('s81')), Integer(2))"), 17);
  EXPECT_EQ(value("torch.utils._sympy.functions.FloorDiv(Symbol('s81'), Integer(2))"), 3);
  EXPECT_EQ(value("Mod(Symbol('s81'), Integer(4))"), 3);
  EXPECT_EQ(value("Max(Integer(1), Symbol('s77'))"), 5);
  EXPECT_EQ(value("Min(Integer(4), Mul(Integer(8), Symbol('s81')))"), 4);
  EXPECT_EQ(value("Pow(Symbol('s77'), Integer(2))"), 25);
  EXPECT_EQ(value("floor(Mul(Rational(1, 2), Symbol('s77')))"), 2);
  EXPECT_EQ(value("CeilToInt(IntTrueDiv(Symbol('s81'), Integer(2)))"), 4);
}

TEST(Symbols, ReadsPeoplesSpelling) {
  EXPECT_EQ(value("2*s81 + 1"), 15);
  EXPECT_EQ(value("(s77 - 1)//2"), 2);
  EXPECT_EQ(value("-s77**2 + 30"), 5);
  EXPECT_EQ(value("s81 % 4 * 2"), 6);
  EXPECT_EQ(value("-7//2"), -4);
}

TEST(Symbols, NonsenseHasNoValue) {
  for (const char* text :
       {"", "(", "2 +", "s77 s81", "Foo(1, 2)", "Integer('x", "1/2", "FloorDiv(1, 0)", "2**2000", "*"}) {
    EXPECT_EQ(value(text), std::nullopt) << text;
  }
  EXPECT_EQ(value(std::string(100000, '(')), std::nullopt);
  EXPECT_EQ(value(std::string(100000, '-') + "1"), std::nullopt);
}

TEST(Symbols, NamesWhatIsMissing) {
  std::set<std::string> missing;
  EXPECT_EQ(evaluate("Add(Symbol('s77'), Symbol('u0'), Integer(1))", {}, missing), std::nullopt);
  EXPECT_EQ(missing, (std::set<std::string>{"s77", "u0"}));
  EXPECT_TRUE(is_data_dependent("u0"));
  EXPECT_FALSE(is_data_dependent("s77"));
}

TEST(Symbols, SolvesForOneSymbol) {
  EXPECT_EQ(solve("Mul(Integer(2), Symbol('s81'))", 14, {}), (std::pair<std::string, std::int64_t>{"s81", 7}));
  EXPECT_EQ(solve("2*s81 + s77", 19, {{"s77", 5}}), (std::pair<std::string, std::int64_t>{"s81", 7}));
  EXPECT_EQ(solve("2*s81", 15, {}), std::nullopt);
  EXPECT_EQ(solve("s81*s77", 15, {}), std::nullopt);
  EXPECT_EQ(solve("s81**2", 49, {}), std::nullopt);
}

TEST(Symbols, PrintsForPeople) {
  EXPECT_EQ(readable("Mul(Integer(2), Symbol('s81', positive=True))"), "2*s81");
  EXPECT_EQ(readable("Add(Integer(1), Mul(Integer(2), Symbol('s81')))"), "1 + 2*s81");
}

}  // namespace
}  // namespace htpipe::pt2

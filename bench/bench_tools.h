// What the benchmarks share.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <vector>

namespace htpipe::bench {

inline double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace htpipe::bench

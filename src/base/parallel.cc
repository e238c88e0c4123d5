#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace htpipe {

int thread_count() {
  static const int count = [] {
    if (const char* text = std::getenv("HTPIPE_THREADS")) {
      const int asked = std::atoi(text);
      if (asked > 0) return std::min(asked, 256);
    }
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }();
  return count;
}

void parallel_for(std::int64_t count, const std::function<void(std::int64_t, int)>& body) {
  const int workers = static_cast<int>(std::min<std::int64_t>(thread_count(), count));
  if (workers <= 1) {
    for (std::int64_t item = 0; item < count; ++item) body(item, 0);
    return;
  }
  std::atomic<std::int64_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  const auto work = [&](int worker) {
    try {
      for (std::int64_t item = next++; item < count; item = next++) body(item, worker);
    } catch (...) {
      next = count;
      const std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
    work(0);
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace htpipe

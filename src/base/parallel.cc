#include "base/parallel.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace htpipe {
namespace {

using Body = std::function<void(std::int64_t, int)>;

/// True in a thread that runs a body.
thread_local bool inside = false;

/// One loop: its items are taken in order by whoever is free.
class Loop {
 public:
  Loop(std::int64_t count, const Body& body) : count_(count), body_(body) {}

  void work(int worker) {
    inside = true;
    try {
      for (std::int64_t item = next_++; item < count_; item = next_++) body_(item, worker);
    } catch (...) {
      next_ = count_;
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    inside = false;
  }
  void rethrow() const {
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::int64_t count_;
  const Body& body_;
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;
  std::exception_ptr failure_;
};

/// Looks at `changed` for some ten microseconds: a thread that sleeps takes longer than that to wake up, and the loops of
/// one execution follow each other closely.
template <typename Changed>
void look(Changed changed) {
  for (int i = 0; i < 2000 && !changed(); ++i) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
}

/// Threads that wait for loops. A loop has them all to itself; whoever comes when its items are taken is not waited for.
class Pool {
 public:
  explicit Pool(int helpers) : process_(getpid()) {
    for (int worker = 1; worker <= helpers; ++worker) {
      threads_.emplace_back([this, worker] { serve(worker); });
    }
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    start_.notify_all();
    if (process_ == getpid()) return;
    for (std::jthread& thread : threads_) thread.detach();  // They exist in the process that forked this one.
  }

  /// False when the threads are taken, or were left behind by a fork.
  bool run(Loop& loop, int workers) {
    const std::unique_lock alone(owner_, std::try_to_lock);
    if (!alone.owns_lock() || process_ != getpid()) return false;
    {
      const std::lock_guard lock(mutex_);
      loop_ = &loop;
      wanted_ = workers - 1;
      ++round_;
    }
    start_.notify_all();
    loop.work(0);
    {
      const std::lock_guard lock(mutex_);
      loop_ = nullptr;  // nobody joins any more
    }
    look([this] { return running_ == 0; });
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
    return true;
  }

 private:
  void serve(int worker) {
    std::uint64_t seen = 0;
    while (true) {
      look([&] { return round_ != seen; });
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return ended_ || round_ != seen; });
      if (ended_) return;
      seen = round_;
      if (loop_ == nullptr || worker > wanted_) continue;
      Loop* loop = loop_;
      ++running_;
      lock.unlock();
      loop->work(worker);
      lock.lock();
      if (--running_ == 0) done_.notify_one();
    }
  }

  pid_t process_;
  std::mutex owner_;
  std::mutex mutex_;  ///< of all that follows; what is atomic may be looked at without it
  std::condition_variable start_;
  std::condition_variable done_;
  Loop* loop_ = nullptr;
  int wanted_ = 0;
  std::atomic<int> running_ = 0;  ///< helpers at work on the loop
  std::atomic<std::uint64_t> round_ = 0;
  bool ended_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace

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

void parallel_for(std::int64_t count, const Body& body, int workers) {
  const int most = workers > 0 ? std::min(workers, thread_count()) : thread_count();
  const int used = static_cast<int>(std::min<std::int64_t>(most, count));
  if (used > 1 && !inside) {
    static Pool pool(thread_count() - 1);
    Loop loop(count, body);
    if (pool.run(loop, used)) return loop.rethrow();
  }
  for (std::int64_t item = 0; item < count; ++item) body(item, 0);
}

}  // namespace htpipe

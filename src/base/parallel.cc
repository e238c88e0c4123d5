#include "base/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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

/// How long a thread looks for work before it sleeps. A thread that sleeps takes tens of microseconds to wake up, on a
/// virtual machine up to a millisecond, and the loops of one execution follow each other closely.
constexpr std::chrono::microseconds kPatience{2000};
/// How long it does so without offering its core to others.
constexpr std::chrono::microseconds kImpatience{50};

/// Looks at `changed` until it is true or patience ends.
template <typename Changed>
void look(Changed changed) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  while (!changed()) {
    for (int i = 0; i < 64 && !changed(); ++i) {
#if defined(__x86_64__)
      __builtin_ia32_pause();
#endif
    }
    const auto waited = Clock::now() - begin;
    if (waited > kPatience) return;
    if (waited > kImpatience) std::this_thread::yield();
  }
}

/// Keeps threads off the core of the one that gives them work. The kernel likes to wake a thread on the core of its waker,
/// where it cannot run before the waker waits for it, and moves it only after milliseconds.
class Places {
 public:
  explicit Places(std::size_t threads) {
    CPU_ZERO(&allowed_);
    const bool known = sched_getaffinity(0, sizeof(allowed_), &allowed_) == 0;
    enough_ = known && static_cast<std::size_t>(CPU_COUNT(&allowed_)) > threads;
  }
  /// To be called by the thread that gives work.
  void avoid_own(std::vector<std::jthread>& threads) {
    if (!enough_) return;
    const int core = sched_getcpu();
    if (core == avoided_ || core < 0 || core >= CPU_SETSIZE || !CPU_ISSET(core, &allowed_)) return;
    avoided_ = core;
    cpu_set_t others = allowed_;
    CPU_CLR(core, &others);
    for (std::jthread& thread : threads) pthread_setaffinity_np(thread.native_handle(), sizeof(others), &others);
  }

 private:
  cpu_set_t allowed_;
  bool enough_ = false;  ///< a core for each thread and for the one that gives work
  int avoided_ = -1;
};

/// Threads that wait for loops. A loop has them all to itself; whoever comes when its items are taken is not waited for.
class Pool {
 public:
  explicit Pool(int helpers) : process_(getpid()), places_(static_cast<std::size_t>(helpers)) {
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
    places_.avoid_own(threads_);
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
  Places places_;     ///< under owner_
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

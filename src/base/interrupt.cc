#include "base/interrupt.h"

#include <unistd.h>
#include <csignal>

#include <atomic>

namespace htpipe {
namespace {

constexpr int kInterruptedExitCode = 130;

std::atomic<bool> g_interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void on_signal(int /*number*/) {
  if (g_interrupted.exchange(true)) ::_exit(kInterruptedExitCode);
}

}  // namespace

void install_interrupt_handlers() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: a blocking wait returns, so that the flag is seen.
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return g_interrupted.load(std::memory_order_relaxed); }

void set_interrupted(bool value) { g_interrupted = value; }

}  // namespace htpipe

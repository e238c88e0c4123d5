// Loops over independent items on several threads, which live as long as the process.
#pragma once

#include <cstdint>
#include <functional>

namespace htpipe {

/// Number of worker threads: HTPIPE_THREADS, else the machine's cores.
[[nodiscard]] int thread_count();

/// Calls body(item, worker) for every item in [0, count); worker in [0, thread_count()). Items must be independent, so
/// that no result depends on the number of threads. An exception of a body is rethrown after all workers ended.
/// At most `workers` threads take part (0 = thread_count()). A loop inside a loop, and one that finds the threads taken
/// by another, runs in the calling thread as worker 0.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t item, int worker)>& body, int workers = 0);

}  // namespace htpipe

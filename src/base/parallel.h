// Loops over independent items on several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace htpipe {

/// Number of worker threads: HTPIPE_THREADS, else the machine's cores.
[[nodiscard]] int thread_count();

/// Calls body(item, worker) for every item in [0, count); worker in [0, thread_count()). Items must be independent, so
/// that no result depends on the number of threads. An exception of a body is rethrown after all workers ended.
void parallel_for(std::int64_t count, const std::function<void(std::int64_t item, int worker)>& body);

}  // namespace htpipe

#include "ops/registry.h"

#include <mutex>

namespace htpipe {

void register_all_ops() {
  static std::once_flag once;
  std::call_once(once, [] {
    register_ops({
#define HTPIPE_OP(name) &ops::name(),
#include "ops/op_list.inc"
#undef HTPIPE_OP
    });
  });
}

}  // namespace htpipe

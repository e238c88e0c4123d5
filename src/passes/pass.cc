#include "passes/pass.h"

namespace htpipe {

const std::vector<const Pass*>& all_passes() {
  static const std::vector<const Pass*> passes = {
#define HTPIPE_PASS(name) &passes::name(),
#include "passes/pass_list.inc"
#undef HTPIPE_PASS
  };
  return passes;
}

const Pass* find_pass(std::string_view name) {
  for (const Pass* pass : all_passes()) {
    if (pass->name == name) return pass;
  }
  return nullptr;
}

}  // namespace htpipe

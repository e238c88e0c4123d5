// torch.export keeps operators that write into memory ("add_", "copy_" on a slice). Values of our graph never change, so
// a write makes a new value, and every name that shares the memory is computed anew when it is next read.
// Invariant: a Slot that is current holds what PyTorch would find in that tensor at this point of the program.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "import/pt2/call.h"

namespace htpipe::pt2 {

/// One tensor of the program.
struct Slot {
  Value* value = nullptr;
  TensorMeta meta;
  Slot* root = nullptr;     ///< the tensor whose memory this one views; null for itself
  std::size_t version = 0;  ///< how many of the root's writes `value` has seen
  std::string state;        ///< parameter, buffer or input that it is: what may not be written to
  struct Write {
    Slot* view;
    Value* value;
  };
  std::vector<Write> writes = {};  ///< root only
};

/// Slots of a program being imported; `call` gives new nodes their name and place.
class Memory {
 public:
  Slot* add(Value* value, const TensorMeta& meta, std::string state = {});
  /// A tensor that shares the memory of `base` if its declared strides say so.
  Slot* add_view(Value* value, const TensorMeta& meta, Slot* base, bool maybe);
  /// The value of a slot now. Errors: unsupported-form.
  static Result<Value*> read(Slot* slot, Call& call);
  /// `value` becomes the contents of the slot. Errors: unsupported-form for memory that outlives the run.
  static Status write(Slot* slot, Value* value);

 private:
  std::deque<Slot> slots_;
};

}  // namespace htpipe::pt2

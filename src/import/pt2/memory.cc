// Views by strides: which elements of the memory a tensor has is told by its declared sizes, strides and offset.
#include "import/pt2/memory.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

namespace htpipe::pt2 {
namespace {

constexpr std::int64_t kLongestStride = std::int64_t{1} << 38;

/// Positions in memory of all elements, row by row.
Result<IntList> positions(const TensorMeta& meta) {
  const std::int64_t count = element_count(meta.sizes);
  HTPIPE_CHECK_OK(check_elements(count));
  // Sums of such strides over tensors of this size stay within 64 bits.
  const bool far =
      std::any_of(meta.strides.begin(), meta.strides.end(), [](std::int64_t s) { return s > kLongestStride; });
  if (far || meta.storage_offset > (std::int64_t{1} << 62))
    return fail(Code::kUnsupportedForm, "a view with absurd strides");
  IntList list;
  list.reserve(static_cast<std::size_t>(count));
  IntList index(meta.sizes.size(), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = meta.storage_offset;
    for (std::size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * meta.strides[axis];
    list.push_back(at);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < meta.sizes[axis]) break;
      index[axis] = 0;
    }
  }
  return list;
}

/// The elements of `root`, counted row by row, that the view has.
Result<IntList> elements_of(const TensorMeta& view, const TensorMeta& root) {
  HTPIPE_TRY(const IntList places, positions(root));
  HTPIPE_TRY(IntList list, positions(view));
  std::map<std::int64_t, std::int64_t> element;
  const bool plain = std::is_sorted(places.begin(), places.end()) && !places.empty() &&
                     places.back() - places.front() + 1 == static_cast<std::int64_t>(places.size());
  if (!plain) {
    for (std::size_t i = 0; i < places.size(); ++i) element[places[i]] = static_cast<std::int64_t>(i);
  }
  for (std::int64_t& at : list) {
    if (plain) {
      at -= places.front();
      if (at < 0 || at >= static_cast<std::int64_t>(places.size())) at = -1;
    } else {
      const auto found = element.find(at);
      at = found == element.end() ? -1 : found->second;
    }
    if (at < 0) return fail(Code::kUnsupportedForm, "a view that reaches out of its tensor");
  }
  return list;
}

bool counts_up(const IntList& list) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] != static_cast<std::int64_t>(i)) return false;
  }
  return true;
}

/// The block of `shape` that the elements are, in order.
struct Box {
  IntList begin;
  IntList end;
};
std::optional<Box> box_of(const IntList& elements, const Shape& shape) {
  if (elements.empty()) return std::nullopt;
  const auto unravel = [&shape](std::int64_t element) {
    IntList index(shape.size());
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      index[axis] = element % shape[axis];
      element /= shape[axis];
    }
    return index;
  };
  Box box{unravel(elements.front()), unravel(elements.back())};
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (++box.end[axis] <= box.begin[axis]) return std::nullopt;
    count *= box.end[axis] - box.begin[axis];
  }
  if (count != static_cast<std::int64_t>(elements.size())) return std::nullopt;
  IntList index = box.begin;
  for (const std::int64_t element : elements) {
    if (unravel(element) != index) return std::nullopt;
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < box.end[axis]) break;
      index[axis] = box.begin[axis];
    }
  }
  return box;
}

/// `base` with its block replaced, axis by axis.
One replace_box(Call& call, Value* base, const Box& box, Value* block, std::size_t axis) {
  const Shape shape = base->type.shape;
  while (axis < shape.size() && box.begin[axis] == 0 && box.end[axis] == shape[axis]) ++axis;
  if (axis == shape.size()) return block;
  const auto at = static_cast<std::int64_t>(axis);
  HTPIPE_TRY(Value * middle, call.slice(base, at, box.begin[axis], box.end[axis], "written"));
  HTPIPE_TRY(middle, replace_box(call, middle, box, block, axis + 1));
  Values parts;
  if (box.begin[axis] > 0) {
    HTPIPE_TRY(Value * before, call.slice(base, at, 0, box.begin[axis], "before"));
    parts.push_back(before);
  }
  parts.push_back(middle);
  if (box.end[axis] < shape[axis]) {
    HTPIPE_TRY(Value * behind, call.slice(base, at, box.end[axis], shape[axis], "behind"));
    parts.push_back(behind);
  }
  return call.concat(std::move(parts), at, "merged");
}

/// The root's value after `written` went to the view.
One scatter(Call& call, Value* base, const TensorMeta& root, const TensorMeta& view, Value* written) {
  HTPIPE_TRY(const IntList elements, elements_of(view, root));
  if (elements.empty()) return base;
  if (counts_up(elements) && elements.size() == static_cast<std::size_t>(base->type.count())) {
    return call.reshape(written, base->type.shape, "written");
  }
  if (const auto box = box_of(elements, base->type.shape)) {
    Shape shape;
    for (std::size_t axis = 0; axis < box->begin.size(); ++axis) shape.push_back(box->end[axis] - box->begin[axis]);
    HTPIPE_TRY(Value * block, call.reshape(written, shape, "block"));
    return replace_box(call, base, *box, block, 0);
  }
  IntList sorted = elements;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return fail(Code::kUnsupportedForm, "a write into a tensor that has elements in common with itself");
  }
  const Shape flat = {base->type.count()};
  const auto count = static_cast<std::int64_t>(elements.size());
  HTPIPE_TRY(Value * memory, call.reshape(base, flat, "flat"));
  HTPIPE_TRY(Value * updates, call.reshape(written, {count}, "updates"));
  HTPIPE_TRY(Value * indices, call.integers_constant("elements", {count}, elements, DType::kI32));
  HTPIPE_TRY(Value * merged,
             call.add("ScatterElements", {{"axis", std::int64_t{0}}}, {memory, indices, updates}, "merged"));
  return call.reshape(merged, base->type.shape, "shaped");
}

/// What the view has of the root's value.
One gather(Call& call, Value* base, const TensorMeta& root, const TensorMeta& view) {
  HTPIPE_TRY(const IntList elements, elements_of(view, root));
  if (counts_up(elements) && elements.size() == static_cast<std::size_t>(base->type.count())) {
    return call.reshape(base, view.sizes, "view");
  }
  if (const auto box = box_of(elements, base->type.shape)) {
    HTPIPE_TRY(
        Value * part,
        call.add("StridedSlice", {{"begin", box->begin}, {"end", box->end}, {"strides", IntList(box->begin.size(), 1)}},
                 {base}, "part"));
    return call.reshape(part, view.sizes, "view");
  }
  HTPIPE_TRY(Value * memory, call.reshape(base, {base->type.count()}, "flat"));
  HTPIPE_TRY(Value * indices, call.integers_constant("elements", view.sizes, elements, DType::kI32));
  return call.add("Gather", {{"axis", std::int64_t{0}}}, {memory, indices}, "view");
}

}  // namespace

Slot* Memory::add(Value* value, const TensorMeta& meta, std::string state) {
  slots_.push_back({value, meta, nullptr, 0, std::move(state)});
  return &slots_.back();
}

Slot* Memory::add_view(Value* value, const TensorMeta& meta, Slot* base, bool maybe) {
  Slot* slot = add(value, meta);
  if (meta.dtype != base->meta.dtype) return slot;
  if (maybe) {
    // A copy has strides of its own; the same elements at the same places in the same order are the same memory.
    if (element_count(meta.sizes) != element_count(base->meta.sizes)) return slot;
    const bool same = meta.sizes == base->meta.sizes && meta.strides == base->meta.strides &&
                      meta.storage_offset == base->meta.storage_offset;
    if (!same) {
      const auto mine = positions(meta);
      const auto theirs = positions(base->meta);
      if (!mine || !theirs || *mine != *theirs) return slot;
    }
  }
  slot->root = base->root != nullptr ? base->root : base;
  slot->version = slot->root->writes.size();
  return slot;
}

Result<Value*> Memory::read(Slot* slot, Call& call) {
  Slot* root = slot->root != nullptr ? slot->root : slot;
  const std::size_t now = root->writes.size();
  if (slot->version == now) return slot->value;
  if (slot == root) {
    for (; slot->version < now; ++slot->version) {
      const Slot::Write& write = root->writes[slot->version];
      if (write.view == root) {
        slot->value = write.value;
      } else {
        HTPIPE_TRY(slot->value, scatter(call, slot->value, root->meta, write.view->meta, write.value));
      }
    }
    return slot->value;
  }
  HTPIPE_TRY(Value * base, read(root, call));
  HTPIPE_TRY(slot->value, gather(call, base, root->meta, slot->meta));
  slot->version = now;
  return slot->value;
}

Status Memory::write(Slot* slot, Value* value) {
  Slot* root = slot->root != nullptr ? slot->root : slot;
  if (!root->state.empty()) {
    return fail(Error(Code::kUnsupportedForm, fmt::format("the model writes into its {}", root->state))
                    .with_hint("Return the new contents as an output instead, and give the old ones as an input."));
  }
  root->writes.push_back({slot, value});
  slot->value = value;
  slot->version = root->writes.size();
  return {};
}

}  // namespace htpipe::pt2

#include "ops/packed.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_map>

namespace htpipe::ops {
namespace {

/// The weight stays with what was made of it: its address cannot be given to another one meanwhile.
struct Packing {
  Tensor weight;
  std::shared_ptr<const void> value;
};

struct Entry {
  std::string kind;
  std::type_index type;
  std::weak_ptr<const Packing> packing;
};

/// Packings by the address of the bytes that they were made from.
class Registry {
 public:
  std::shared_ptr<const Packing> find(const Tensor& weight, std::string_view kind, std::type_index type) {
    const std::lock_guard lock(mutex_);
    return find_locked(weight, kind, type);
  }

  /// `made`, or what another thread added meanwhile.
  std::shared_ptr<const Packing> add(std::string_view kind, std::type_index type,
                                     const std::shared_ptr<const Packing>& made) {
    const std::lock_guard lock(mutex_);
    if (auto found = find_locked(made->weight, kind, type)) return found;
    if (entries_.size() >= sweep_at_) {
      std::erase_if(entries_, [](const auto& item) { return item.second.packing.expired(); });
      sweep_at_ = std::max<std::size_t>(2 * entries_.size(), kFirstSweep);
    }
    entries_.emplace(made->weight.bytes().data(), Entry{std::string(kind), type, made});
    return made;
  }

 private:
  static constexpr std::size_t kFirstSweep = 256;

  std::shared_ptr<const Packing> find_locked(const Tensor& weight, std::string_view kind, std::type_index type) {
    const auto [begin, end] = entries_.equal_range(weight.bytes().data());
    for (auto at = begin; at != end; ++at) {
      const Entry& entry = at->second;
      if (entry.kind != kind || entry.type != type) continue;
      auto packing = entry.packing.lock();
      if (packing && packing->weight.type() == weight.type()) return packing;
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::unordered_multimap<const std::byte*, Entry> entries_;
  std::size_t sweep_at_ = kFirstSweep;
};

}  // namespace

std::shared_ptr<const void> shared_packed_bytes(const Tensor& weight, std::string_view kind, std::type_index type,
                                                const std::function<std::shared_ptr<const void>()>& make) {
  static Registry registry;
  auto packing = registry.find(weight, kind, type);
  if (!packing) {
    // Made outside of the lock: others pack other weights meanwhile.
    packing = registry.add(kind, type, std::make_shared<const Packing>(Packing{weight, make()}));
  }
  return {packing, packing->value.get()};
}

}  // namespace htpipe::ops

#include "nccl2/c10d/store_rendezvous.h"

#include <algorithm>
#include <chrono>

#include "nccl2/c10d/errors.h"
#include "nccl2/core/failure.h"

namespace pycomms::c10d_backend {
namespace {

constexpr int64_t kLookEvery = 10 * kMillisecond;

}  // namespace

Error StoreRendezvous::make(const Engine& engine, int index, bool alone, UniqueId* id, Deadline) {
  if (engine.nccl.get_unique_id(id) != nccl_abi::kSuccess) {
    return error(ErrorKind::kSystem, rank_,
                 "the engine has no unique id to give: " + last_engine_text(engine, nullptr));
  }
  if (alone) return {};
  try {
    const auto* bytes = reinterpret_cast<const uint8_t*>(id->internal);
    store_->set(key(index), std::vector<uint8_t>(bytes, bytes + sizeof id->internal));
    return {};
  } catch (const std::exception& e) {
    return error(ErrorKind::kSystem, rank_, "cannot write " + key(index) + " to the store: " + text_of(e));
  }
}

Error StoreRendezvous::fetch(int index, int root, UniqueId* id, Deadline deadline) {
  const int64_t begun = now_ns();
  try {
    if (outer_) {
      if (Error error = wait_while_outer_is_well(index, root, deadline)) return error;
    } else {
      store_->wait({key(index)}, std::chrono::milliseconds(std::max<int64_t>(deadline.left() / kMillisecond, 1)));
    }
    const std::vector<uint8_t> bytes = store_->get(key(index));
    if (bytes.size() != sizeof id->internal) {
      return error(ErrorKind::kSystem, root,
                   key(index) + " in the store has " + std::to_string(bytes.size()) + " bytes");
    }
    std::copy(bytes.begin(), bytes.end(), id->internal);
    if (store_->add(key(index) + "/readers", 1) == size_ - 1) {
      store_->deleteKey(key(index));
      store_->deleteKey(key(index) + "/readers");
    }
    return {};
  } catch (const std::exception& e) {
    return nobody_came(index, root, now_ns() - begun, " (" + text_of(e) + ")");
  }
}

// Not by the store's own wait, which takes a second or more to give up.
Error StoreRendezvous::wait_while_outer_is_well(int index, int root, Deadline deadline) {
  const int64_t begun = now_ns();
  while (!store_->check({key(index)})) {
    if (Error error = outer_()) return error;
    if (deadline.passed()) return nobody_came(index, root, now_ns() - begun, "");
    sleep_for(kLookEvery);
  }
  return {};
}

Error StoreRendezvous::nobody_came(int index, int root, int64_t waited_ns, const std::string& details) const {
  return error(ErrorKind::kTimeout, root,
               "waited " + std::to_string(waited_ns / kMillisecond) + " ms for rank " + std::to_string(root) +
                   " to write " + key(index) + " to the store: has it created this group?" + details);
}

Error StoreRendezvous::error(ErrorKind kind, int root, const std::string& what) const {
  ErrorDetail detail;
  detail.kind = kind;
  detail.message = "rank " + std::to_string(rank_) + " of group " + group_ + " cannot connect: " + what;
  detail.ranks = {root};
  detail.op = "connect";
  detail.group = group_;
  detail.rank = rank_;
  return Error(std::move(detail));
}

}  // namespace pycomms::c10d_backend

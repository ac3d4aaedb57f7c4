// What a regroup does for the communicator of a group's GPU. It is made of the old one where all members agree that this can
// be done (core/succession.h); otherwise, and when that fails, the first operation on a GPU tensor makes it anew.
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/errors.h"

namespace pycomms::c10d_backend {
namespace {

// The first member to the newcomers.
struct GrowNote {
  UniqueId id;
  int32_t has_id;
};
static_assert(sizeof(GrowNote) <= hostccl::kExchangeBytes);

const NcclApi* nccl_if_loaded() {
  Result<const Engine*> engine = loaded_nccl();
  return engine.is_ok() ? &engine.value()->nccl : nullptr;
}

}  // namespace

Heritage Backend::heritage() const {
  Heritage mine;
  if (!serves_gpu()) return mine;
  if (const NcclApi* nccl = nccl_if_loaded(); nccl != nullptr) {
    mine.can_shrink = nccl->comm_shrink != nullptr ? 1 : 0;
    mine.can_grow = nccl->comm_grow != nullptr && nccl->comm_get_unique_id != nullptr ? 1 : 0;
  }
  const auto device = lanes_->device_if_made();
  if (device == nullptr) return mine;
  const Communicator& old = device->communicator();
  const LifeState state = old.state();
  const bool is_calm = state == LifeState::kRegrouping;
  if (!is_calm && state != LifeState::kRevoked && state != LifeState::kFailed) return mine;  // the engine has none
  mine.identity = communicator_->identity();
  mine.rank = old.rank();
  mine.size = old.size();
  mine.is_calm = is_calm ? 1 : 0;
  return mine;
}

// Null: it has not worked, which harms nobody. intermediate: to be ended when all are done.
std::shared_ptr<DeviceGroup> Backend::continue_on_device(const Succession& how, const Lanes& made, at::Device device,
                                                         Deadline deadline,
                                                         std::unique_ptr<Communicator>* intermediate) {
  Communicator& main = *made.main();
  const int64_t left_for_it = deadline.left() / 2;  // the members vote afterwards
  CommunicatorOptions options = communicator_options(main.rank(), main.size(), *options_, made.hooks());
  options.record = main.record();
  const Members members = Lanes::serve(made.main(), &options);
  options.timeout = left_for_it;
  const c10::OptionalDeviceGuard here(device);
  std::unique_ptr<Communicator> next;
  Error failed;
  const bool survives = main.rank() < how.survivors;
  Communicator* parent = nullptr;
  if (survives) {
    parent = &lanes_->device_if_made()->communicator();
    CommunicatorOptions reduced = options;
    reduced.size = how.survivors;
    if (how.reorders) {
      failed = parent->split(0, std::move(reduced), main.rank(), &next);
      if (!failed) failed = next->become_ready(Deadline::after(left_for_it));
    } else if (!how.excluded.empty()) {
      const auto way = how.revokes ? Communicator::Shrink::kRevoke : Communicator::Shrink::kWhenIdle;
      failed = parent->shrink(how.excluded, way, std::move(reduced), &next);
    }
    if (next != nullptr) parent = next.get();
  }
  if (how.grows) {
    GrowNote mine{};
    if (main.rank() == 0 && !failed) {
      failed = parent->unique_id_to_grow(&mine.id);
      mine.has_id = failed ? 0 : 1;
    }
    std::vector<GrowNote> all(static_cast<size_t>(main.size()));
    Error told = main.exchange(OpKind::kGrow, &mine, sizeof(mine), all.data(), Deadline::after(left_for_it));
    if (failed || told || all.front().has_id == 0) return nullptr;
    *intermediate = std::move(next);
    if (survives) {
      failed = parent->grow(main.rank() == 0 ? &mine.id : nullptr, options, &next);
    } else {
      next = DeviceGroup::communicator_on(device, options);
      failed = next->join_grown(all.front().id, Deadline::after(left_for_it));
    }
  }
  if (failed || next == nullptr) return nullptr;
  next->set_timeout(to_ns(options_->timeout));
  return DeviceGroup::around(device, options_->is_high_priority_stream, std::move(next), members);
}

}  // namespace pycomms::c10d_backend

#include "nccl2/c10d/lanes.h"

#include <optional>
#include <vector>

#include "nccl2/c10d/store_rendezvous.h"
#include "nccl2/core/reaper.h"

namespace pycomms::c10d_backend {
namespace {

constexpr int64_t kCallbacks = 10 * kSecond;  // that callbacks may take when the process ends: docs/errors.md says so

struct LiveGroups {
  std::mutex mutex;
  std::vector<std::weak_ptr<Lanes>> all;  // guarded by mutex
};

LiveGroups& live_groups() {  // never destroyed: groups may be, later
  static auto* one = new LiveGroups;
  return *one;
}

}  // namespace

CommunicatorOptions Lanes::options_beside_main(const std::string& group) const {
  CommunicatorOptions options;
  options.rank = main_->rank();
  options.size = main_->size();
  options.group = group;
  options.timeout = main_->timeout();
  options.interrupted = main_->interrupted();
  options.ranks_per_root = main_->ranks_per_root();
  return options;
}

SparseLane& Lanes::sparse() {
  const std::lock_guard lock(mutex_);
  if (sparse_ != nullptr) return *sparse_;
  CommunicatorOptions options = options_beside_main(main_->group() + "/sparse");
  options.outer = [main = main_] { return main->need_all(OpKind::kAllReduceSparse); };
  auto own = std::make_unique<Communicator>(main_->engine(), main_->runtime(), options);
  own->set_rendezvous(
      std::make_unique<StoreRendezvous>(store_, options.group, options.rank, options.size, options.outer));
  sparse_ = std::make_shared<SparseLane>(main_, std::move(own), hooks_);
  return *sparse_;
}

std::shared_ptr<SparseLane> Lanes::sparse_if_made() {
  const std::lock_guard lock(mutex_);
  return sparse_;
}

std::function<Error()> Lanes::members_of(std::shared_ptr<Communicator> main) {
  return [main = std::move(main)] {
    // Nobody may have asked yet whether it has connected.
    if (main->state() == LifeState::kConnecting) static_cast<void>(main->become_ready(Deadline::after(0)));
    return main->state() == LifeState::kReady ? main->need_all(OpKind::kBarrier) : main->first_error();
  };
}

std::shared_ptr<DeviceGroup> Lanes::device(c10::Device device, bool high_priority) {
  auto group = device_if_made();
  if (group == nullptr) {
    CommunicatorOptions options = options_beside_main(main_->group());
    options.on_failure = [hooks = hooks_] { hooks->run(); };
    options.outer = members_of(main_);
    group = DeviceGroup::make(device, high_priority, options, options.outer);  // asks the device: not under the lock
    group->communicator().set_rendezvous(
        std::make_unique<StoreRendezvous>(store_, options.group + "/cuda", options.rank, options.size, options.outer));
    const std::lock_guard lock(mutex_);
    if (device_ == nullptr) device_ = group;
    group = device_;
  }
  TORCH_CHECK_VALUE(group->device() == device, "group ", main_->group(), " works with ", group->device(),
                    " and got a tensor on ", device, ": each rank of a group has one GPU");
  return group;
}

std::shared_ptr<DeviceGroup> Lanes::device_if_made() {
  const std::lock_guard lock(mutex_);
  return device_;
}

void Lanes::adopt(std::shared_ptr<DeviceGroup> device) {
  const std::lock_guard lock(mutex_);
  device_ = std::move(device);
}

void Lanes::abort(const std::string& why) {
  // A GPU's communicator that takes its time delays none of the others. In a forked child there is nothing to abort, and
  // the lock may be that of a thread which is not there.
  std::optional<Reaper::Together> together;
  if (!main_->was_forked()) together.emplace();
  if (const auto device = device_if_made()) device->communicator().abort(why);
  main_->abort(why);
  if (const auto sparse = sparse_if_made()) sparse->abort(why);
}

void Lanes::shutdown() {
  if (const auto device = device_if_made()) device->communicator().shutdown();
  const bool in_order = main_->shutdown();
  const auto sparse = sparse_if_made();
  if (sparse == nullptr) return;
  if (in_order) {
    sparse->shutdown();
  } else {
    sparse->abort("the group was shut down");
  }
}

void Lanes::leave(const std::string& why) {
  if (const auto device = device_if_made()) device->communicator().leave(why);
  main_->leave(why);
  if (const auto sparse = sparse_if_made()) sparse->leave(why);
}

void Lanes::wait_for_callbacks(Deadline deadline) {
  if (main_->was_forked()) return;  // what is in flight is the parent's
  static_cast<void>(main_->wait_for_pending(deadline));
}

void remember_group(const std::shared_ptr<Lanes>& group) {
  LiveGroups& live = live_groups();
  const std::lock_guard lock(live.mutex);
  std::erase_if(live.all, [](const std::weak_ptr<Lanes>& one) { return one.expired(); });
  live.all.push_back(group);
}

void leave_all_groups() {
  std::vector<std::shared_ptr<Lanes>> groups;
  {
    LiveGroups& live = live_groups();
    const std::lock_guard lock(live.mutex);
    for (const auto& one : live.all) {
      if (auto group = one.lock()) groups.push_back(std::move(group));
    }
  }
  for (const auto& group : groups) group->leave("this process has ended without destroying the group");
  const Deadline deadline = Deadline::after(kCallbacks);
  for (const auto& group : groups) group->wait_for_callbacks(deadline);
}

}  // namespace pycomms::c10d_backend

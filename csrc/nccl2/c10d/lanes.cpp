#include "nccl2/c10d/lanes.h"

#include <optional>
#include <vector>

#include "base/fork.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/store_rendezvous.h"
#include "nccl2/core/meetings.h"
#include "nccl2/core/reaper.h"

namespace pycomms::c10d_backend {
namespace {

constexpr int64_t kConnected = 1 * kSecond;   // until a group all of whose members have come has heard of it
constexpr int64_t kCallbacks = 10 * kSecond;  // that callbacks may take when the process ends: docs/errors.md says so

struct LiveGroups {
  std::mutex mutex;
  std::vector<std::weak_ptr<Lanes>> all;  // guarded by mutex
};

// A forked child has none: those are its parent's.
LiveGroups& live_groups() { return per_process<LiveGroups>(); }

}  // namespace

CommunicatorOptions Lanes::options_beside_main(const std::string& group) const {
  CommunicatorOptions options;
  options.rank = main_->rank();
  options.size = main_->size();
  options.group = group;
  options.timeout = main_->timeout();
  options.interrupted = main_->interrupted();
  options.record = main_->record();
  options.ranks_per_root = store_ == nullptr ? 0 : main_->ranks_per_root();
  return options;
}

std::unique_ptr<Rendezvous> Lanes::rendezvous(const std::string& name, const CommunicatorOptions& options) const {
  if (store_ == nullptr) return std::make_unique<PeerRendezvous>(main_);
  return std::make_unique<StoreRendezvous>(store_, name, options.rank, options.size, options.outer);
}

SparseLane& Lanes::sparse() {
  const std::lock_guard lock(mutex_);
  if (sparse_ != nullptr) return *sparse_;
  CommunicatorOptions options = options_beside_main(main_->group() + "/sparse");
  options.outer = [main = main_] { return main->need_all(OpKind::kAllReduceSparse); };
  options.record.reset();  // its operations are entries of the group: Backend::allreduce_sparse
  auto own = std::make_unique<Communicator>(main_->engine(), main_->runtime(), options);
  own->set_rendezvous(rendezvous(options.group, options));
  sparse_ = std::make_shared<SparseLane>(main_, std::move(own), hooks_);
  return *sparse_;
}

std::shared_ptr<SparseLane> Lanes::sparse_if_made() {
  const std::lock_guard lock(mutex_);
  return sparse_;
}

Members Lanes::members_of(const std::shared_ptr<Communicator>& main) {
  return [main](bool* has_left) {
    // Nobody may have asked yet whether it has connected.
    if (main->state() == LifeState::kConnecting) static_cast<void>(main->become_ready(Deadline::after(0)));
    if (main->state() != LifeState::kReady) return main->first_error();
    return has_left == nullptr ? main->need_all(OpKind::kBarrier) : main->need_living(OpKind::kBarrier, has_left);
  };
}

Members Lanes::serve(const std::shared_ptr<Communicator>& main, CommunicatorOptions* options) {
  Members members = members_of(main);
  if (options->record) options->record->device = "cuda";
  options->outer = [members] { return members(nullptr); };
  options->on_failure = [main](const Error& failure) { main->share(failure); };
  return members;
}

std::shared_ptr<DeviceGroup> Lanes::device(c10::Device device, bool high_priority) {
  auto group = device_if_made();
  if (group == nullptr) {
    // First: who hears of the members by way of `main` must not be behind one that is done and leaves.
    throw_if(main_->become_ready(Deadline::after(main_->timeout())));
    CommunicatorOptions options = options_beside_main(main_->group());
    const Members members = serve(main_, &options);
    group = DeviceGroup::make(device, high_priority, options, members);  // asks the device: not under the lock
    group->communicator().set_rendezvous(rendezvous(options.group + "/cuda", options));
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

void Lanes::pause(const std::string& why) {
  main_->pause(why);
  if (const auto device = device_if_made()) device->communicator().pause(why);
  if (const auto sparse = sparse_if_made()) sparse->pause(why);
}

void Lanes::end_pause() {
  main_->end_pause();
  if (const auto device = device_if_made()) device->communicator().end_pause();
  if (const auto sparse = sparse_if_made()) sparse->end_pause();
}

void Lanes::abort(const std::string& why) {
  // A GPU's communicator that takes its time delays none of the others. It is not waited for long: it may be done only when
  // groups that the same thread aborts next have been aborted, too. In a forked child there is nothing to abort, and the lock
  // may be that of a thread which is not there.
  std::optional<Reaper::Together> together;
  if (!main_->was_forked()) together.emplace(Reaper::Wait::kBriefly);
  if (const auto device = device_if_made()) device->communicator().abort(why);
  main_->abort(why);
  if (const auto sparse = sparse_if_made()) sparse->abort(why);
}

// Where only GPUs have worked nobody may have asked yet whether the main communicator has connected. If it has not it cannot
// be left in order, and members whose operations are still in flight would take that for an abort.
void Lanes::finish_connecting() {
  const auto device = device_if_made();
  if (device == nullptr || device->communicator().state() != LifeState::kReady || main_->was_forked()) return;
  static_cast<void>(main_->become_ready(Deadline::after(kConnected)));
}

void Lanes::shutdown() {
  finish_connecting();
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
  finish_connecting();
  if (const auto device = device_if_made()) device->communicator().leave(why);
  main_->leave(why);
  if (const auto sparse = sparse_if_made()) sparse->leave(why);
}

void Lanes::wait_for_callbacks(Deadline deadline) { static_cast<void>(main_->wait_for_pending(deadline)); }

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
  {
    std::optional<Reaper::Together> together;
    if (!groups.empty()) together.emplace(Reaper::Wait::kNo);
    for (const auto& group : groups) group->leave("this process has ended without destroying the group");
  }
  const Deadline deadline = Deadline::after(kCallbacks);
  for (const auto& group : groups) group->wait_for_callbacks(deadline);
  // An engine that is still at it when the libraries are taken down may crash.
  static_cast<void>(Reaper::instance().wait_until_idle(deadline));
}

}  // namespace pycomms::c10d_backend

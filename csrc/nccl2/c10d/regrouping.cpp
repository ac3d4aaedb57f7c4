// Backend::regroup: other members, ranks and communicators under the same object, so that whoever holds the group goes on with it.
//
// The new communicators are made beside the old ones. When they stand, all members say so to each other, and only when all have
// said so does any of them exchange the old ones for the new: until then each can go back to what it had. The members find
// each other by their handles alone: the store may be gone.
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <numeric>

#include "base/thread.h"
#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/regroup_probe.h"
#include "nccl2/c10d/work.h"
#include "nccl2/core/failure.h"
#include "nccl2/core/meetings.h"

namespace pycomms::c10d_backend {
namespace {

constexpr const char* kOp = "regroup";
constexpr const char* kInProgress = "the group is being regrouped";
constexpr size_t kNoteBytes = 128;
constexpr int64_t kEngineGrace = 1 * kSecond;  // its own deadline comes first: it names who is missing

// What each member says to the others when what it can do by itself has gone well, or has not.
struct Vote {
  int32_t yes;
  uint32_t note_bytes;
  Heritage heritage;
  char note[kNoteBytes];
};
static_assert(sizeof(Vote) <= hostccl::kExchangeBytes);

// By rank.
Error vote(Communicator& main, const Vote& mine, std::vector<Vote>* all, Deadline deadline) {
  all->resize(static_cast<size_t>(main.size()));
  return main.exchange(OpKind::kRegroup, &mine, sizeof(mine), all->data(), deadline);
}

Error could_not(const Communicator& main, int rank) {
  ErrorDetail detail;
  detail.kind = ErrorKind::kSystem;
  detail.op = kOp;
  detail.group = main.group();
  detail.rank = main.rank();
  detail.ranks = {rank};
  detail.message = "rank " + std::to_string(main.rank()) + " of group " + main.group() + ": regroup: rank " +
                   std::to_string(rank) +
                   " could not do its part, so the group stays as it was; its own error says why";
  return Error(std::move(detail));
}

}  // namespace

std::shared_ptr<Lanes> Backend::lanes() const {
  const std::lock_guard lock(lanes_mutex_);
  return lanes_;
}

std::shared_ptr<Lanes> Backend::successor() const {
  const std::lock_guard lock(lanes_mutex_);
  return successor_;
}

void Backend::set_successor(std::shared_ptr<Lanes> lanes) {
  const std::lock_guard lock(lanes_mutex_);
  successor_ = std::move(lanes);
}

std::string Backend::regroup_handle() const {
  const Visit inside(visitors_);
  if (communicator_->was_forked()) {
    throw_value_error("regroup_handle", "this process was forked from a member of the group and is none itself");
  }
  char address[hostccl::kAddressBytes];
  const Engine& engine = communicator_->engine();
  if (engine.host.address(address, sizeof(address)) != nccl_abi::kSuccess) {
    throw_value_error("regroup_handle", "this process has no address: " + last_engine_text(engine, nullptr));
  }
  return to_text({nonce_, rank_, uuid_, address});
}

Membership Backend::checked_membership(const RegroupArgs& args) const {
  Result<Membership> members = make_membership(args.uuid, args.handles, args.by_position, nonce_);
  if (!members.is_ok()) throw_value_error(kOp, members.status().message());
  throw_if(HandleRendezvous(communicator_->engine(), members.value(), communicator_->group()).check());
  return members.take();
}

#ifdef C10D_BACKEND_HAS_RECONFIGURE
WorkPtr Backend::reconfigure(const ::c10d::ReconfigureOptions& opts) {
  RegroupArgs args;
  args.uuid = opts.uuid;
  args.timeout = opts.timeout.value_or(kNoTimeout);
  if (const auto* const list = std::get_if<std::vector<std::string>>(&opts.handles)) {
    args.handles = *list;
  } else {
    const auto& set = std::get<std::unordered_set<std::string>>(opts.handles);
    args.handles.assign(set.begin(), set.end());
    args.by_position = false;
  }
  return regroup(args);
}
#endif

std::vector<std::string> Backend::regroup_notes() const {
  const std::lock_guard lock(lanes_mutex_);
  return notes_;
}

WorkPtr Backend::regroup(const RegroupArgs& args) {
  if constexpr (!kCanRegroup) {
    throw c10::NotImplementedError(
        "regroup: needs torch 2.14 or newer, where a group may change its rank and size; this is torch " TORCH_VERSION,
        nullptr);
  }
  const Visit inside(visitors_);
  if (communicator_->was_forked()) {
    throw_value_error(kOp, "this process was forked from a member of the group and cannot regroup it");
  }
  Membership members = checked_membership(args);
  if (args.note.size() > kNoteBytes) {
    throw_value_error(
        kOp, "note has " + std::to_string(args.note.size()) + " bytes, expected at most " + std::to_string(kNoteBytes));
  }
  const bool on_gpu = serves_gpu();
  const at::Device device = on_gpu ? c10::impl::VirtualGuardImpl(at::kCUDA).getDevice() : at::Device(at::kCPU);
  if (is_regrouping_.exchange(true)) throw_value_error(kOp, "the group is being regrouped already: wait for that");
  // Whoever opens a block does it the other way round: says so first, and then looks whether the group is being regrouped.
  if (block_thread_ == std::this_thread::get_id()) static_cast<void>(is_in_block());  // an exception may have ended it
  if (block_thread_ != std::thread::id()) {
    is_regrouping_ = false;
    throw_value_error(kOp, "a coalesced block of the group is open: close it first");
  }
  end_regroup_thread();
  if (!used_uuids_.insert(args.uuid).second) {
    is_regrouping_ = false;
    throw_value_error(kOp, "uuid " + std::to_string(args.uuid) +
                               " has been used for this group before: each regroup, and " +
                               "each new try, needs another one");
  }
  auto work = make_work(OpKind::kRegroup, {}, {});
  auto state = std::make_shared<TensorOp>(OpKind::kRegroup);
  work->follow(state);
  begin_regroup({std::move(members), Deadline::after(timeout_ns(args.timeout)), device, args.note, std::move(state)});
  return work;
}

void Backend::begin_regroup(Regroup regroup) {
  lanes_->pause(kInProgress);
  // Here, and not on the thread: whoever aborts the group as soon as he has the Work aborts this too.
  const auto made = successor_of(*lanes_, regroup.members, regroup.is_live);
  made->main()->begin(regroup.state);  // it ends with the successor, if that is aborted
  regroup.made = made;
  set_successor(made);
  remember_group(made);
  // The thread keeps the backend: it must not go while its communicators are exchanged.
  auto self = c10::intrusive_ptr<Backend>::reclaim_copy(this);
  auto thread = start_thread("pycomms-regroup", [self = std::move(self), regroup = std::move(regroup)]() mutable {
    self->regroup_now(std::move(regroup));
    self.reset();
  });
  if (thread.is_ok()) {
    regroup_thread_ = thread.take();
    return;
  }
  set_successor(nullptr);
  lanes_->end_pause();
  is_regrouping_ = false;
  made->abort("the regroup has failed");
  throw_value_error(kOp, thread.status().message());
}

void Backend::end_regroup_thread() {
  if (!regroup_thread_.joinable()) return;
  const bool is_own = regroup_thread_.get_id() == std::this_thread::get_id();
  if (is_own || communicator_->was_forked()) return regroup_thread_.detach();  // after a fork it is the parent's
  regroup_thread_.join();
}

void Backend::regroup_now(Regroup regroup) {
  const std::shared_ptr<Lanes> made = std::move(regroup.made);
  const std::shared_ptr<Communicator>& main = made->main();
  std::shared_ptr<Lanes> useless = made;
  Byproducts byproducts;
  RegroupProbe::of_process().reached("before_prepare");
  Error failed = prepare(*made, regroup.deadline);
  RegroupProbe::of_process().reached("prepared");
  if (!failed) {
    visitors_.close();           // calls that were inside end with the operations that have been cancelled
    lanes_->pause(kInProgress);  // those, too, that came while there was nothing to pause yet
    failed = agree(regroup, *made, visitors_.wait_until_empty(regroup.deadline), &byproducts);
    regroup.is_live->store(!failed);
    if (!failed) useless = exchange_lanes(made, regroup.members, std::move(byproducts.notes));
    visitors_.open();
  }
  if (!failed) RegroupProbe::of_process().reached("committed");
  set_successor(nullptr);
  if (failed) lanes_->end_pause();
  is_regrouping_ = false;
  main->end(*regroup.state, failed);
  useless->abort(failed ? "the regroup has failed" : "the group was regrouped");
}

// The first half: what is new stands beside what is old.
Error Backend::prepare(Lanes& made, Deadline deadline) {
  Communicator& main = *made.main();
  main.set_timeout(std::max<int64_t>(deadline.left(), 1));
  if (Error error = main.start()) return error;
  if (Error error = main.become_ready(Deadline::at(deadline.ns() + kEngineGrace))) return error;
  main.set_timeout(to_ns(options_->timeout));
  return {};
}

// The second half: all say how it went with them, and it has gone well if it has with all.
Error Backend::agree(const Regroup& regroup, Lanes& made, bool is_well, Byproducts* byproducts) {
  Communicator& main = *made.main();
  Vote mine{.yes = is_well ? 1 : 0, .note_bytes = 0, .heritage = heritage(), .note = {}};
  mine.note_bytes = static_cast<uint32_t>(regroup.note.copy(mine.note, kNoteBytes));
  std::vector<Vote> all;
  if (Error error = vote(main, mine, &all, regroup.deadline)) return error;
  std::vector<Heritage> heritages;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].yes == 0) return could_not(main, static_cast<int>(rank));
    heritages.push_back(all[rank].heritage);
    byproducts->notes.emplace_back(all[rank].note, std::min<size_t>(all[rank].note_bytes, kNoteBytes));
  }
  const Succession how = decide_succession(heritages);
  if (how.way != Succession::Way::kOfOld) return {};
  std::shared_ptr<DeviceGroup> on_gpu;
  try {
    on_gpu = continue_on_device(how, made, regroup.device, regroup.deadline, &byproducts->intermediate);
  } catch (const std::exception&) {  // no such GPU here, or no thread: then it is made anew
  }
  mine.yes = on_gpu != nullptr ? 1 : 0;
  if (Error error = vote(main, mine, &all, regroup.deadline)) return error;
  if (std::all_of(all.begin(), all.end(), [](const Vote& one) { return one.yes != 0; })) made.adopt(std::move(on_gpu));
  return {};
}

std::shared_ptr<Lanes> Backend::successor_of(Lanes& old, const Membership& members,
                                             const std::shared_ptr<std::atomic<bool>>& is_live) {
  CommunicatorOptions options = communicator_options(members.rank, members.size(), *options_, old.hooks());
  if (auto& record = options.record) {
    record->generation = static_cast<uint32_t>(generation() + 1);
    if (record->ranks.size() != members.members.size()) record->ranks.clear();
  }
  // Whoever watches the group hears of the failures of what it consists of.
  options.on_failure = [tell = std::move(options.on_failure), is_live](const Error& failure) {
    if (*is_live) tell(failure);
  };
  const Communicator& before = *old.main();
  auto main = std::make_shared<Communicator>(before.engine(), before.runtime(), std::move(options));
  main->set_rendezvous(std::make_unique<HandleRendezvous>(main->engine(), members, main->group()));
  return std::make_shared<Lanes>(nullptr, std::move(main), old.hooks());
}

// With nobody inside. Returns the old ones.
std::shared_ptr<Lanes> Backend::exchange_lanes(std::shared_ptr<Lanes> made, const Membership& members,
                                               std::vector<std::string> notes) {
  const std::lock_guard lock(lanes_mutex_);
  auto& global = options_->global_ranks_in_group;
  const bool is_default_group = std::is_sorted(global.begin(), global.end()) &&
                                global.size() == static_cast<size_t>(size_) &&
                                (global.empty() || global.back() + 1 == global.size());
  if (is_default_group) {
    global.resize(members.members.size());
    std::iota(global.begin(), global.end(), 0);
  }
  auto old = std::exchange(lanes_, std::move(made));
  communicator_ = lanes_->main();
  notes_ = std::move(notes);
#if PYCOMMS_TORCH_AT_LEAST(2, 14)
  rank_ = members.rank;
  size_ = members.size();
#endif
  uuid_ = members.uuid;
  generation_->fetch_add(1, std::memory_order_release);
  return old;
}

}  // namespace pycomms::c10d_backend

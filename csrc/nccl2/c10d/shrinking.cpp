// Backend::shrink: a group of the members that stay, made without those that are gone.
//
// The members that stay agree over the store first, so that one that does not come harms nobody, and so that all make the new
// communicators in the same way. That of the GPU is made by the engine from the old one, if that is in order on all of them;
// otherwise, and for the CPU, the new group connects as any new group does.
#include <c10/core/DeviceGuard.h>

#include <algorithm>

#include "nccl2/c10d/backend.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/store_agreement.h"
#include "nccl2/c10d/store_rendezvous.h"

namespace pycomms::c10d_backend {
namespace {

std::string text_of_list(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
  return text;
}

std::vector<int> checked_exclusion(const std::vector<int64_t>& given, int rank, int size) {
  if (given.empty()) throw_value_error("shrink", "ranks_to_exclude is empty: name at least one rank");
  std::vector<int> excluded;
  for (const int64_t one : given) {
    if (one < 0 || one >= size) {
      throw_value_error("shrink", "rank " + std::to_string(one) + " in ranks_to_exclude is not in the group of " +
                                      std::to_string(size));
    }
    if (one == rank) {
      throw_value_error("shrink", "this is rank " + std::to_string(rank) +
                                      ", which is in ranks_to_exclude: only those that stay call it");
    }
    excluded.push_back(static_cast<int>(one));
  }
  std::sort(excluded.begin(), excluded.end());
  if (const auto twice = std::adjacent_find(excluded.begin(), excluded.end()); twice != excluded.end()) {
    throw_value_error("shrink", "rank " + std::to_string(*twice) + " is in ranks_to_exclude twice");
  }
  return excluded;
}

// What has failed has nothing in flight that is worth waiting for.
void wait_for_in_flight(Communicator& communicator, Deadline deadline) {
  if (Error busy = communicator.wait_until_idle(OpKind::kShrink, deadline); busy && !communicator.first_error())
    throw_error(busy);
}

// The new group does not know of a member that dies before it has come there. The old one does.
std::function<Error()> also_asking(std::shared_ptr<Communicator> old, std::function<Error()> outer) {
  return [old = std::move(old), outer = std::move(outer)] {
    if (Error error = outer()) return error;
    bool has_left = false;  // those that do not stay may
    return old->need_living(OpKind::kShrink, &has_left);
  };
}

}  // namespace

c10::intrusive_ptr<::c10d::Backend> Backend::shrink(const std::vector<int64_t>& ranks_to_exclude, int flags,
                                                    const c10::intrusive_ptr<::c10d::Backend::Options>& opts) {
  const Visit inside(visitors_);
  const std::vector<int> excluded = checked_exclusion(ranks_to_exclude, rank_, size_);
  if (flags != nccl_abi::kShrinkDefault && flags != nccl_abi::kShrinkAbort) {
    throw_value_error("shrink", "shrink_flags is " + std::to_string(flags) + ", expected 0 (default) or 1 (abort)");
  }
  refuse_in_block("shrink");
  if (lanes_->store() == nullptr) {
    throw_value_error("shrink", "group " + communicator_->group() + " was regrouped: regroup it again instead");
  }
  const bool aborts = flags == nccl_abi::kShrinkAbort;
  std::vector<int> members;
  for (int rank = 0; rank < size_; ++rank) {
    if (!std::binary_search(excluded.begin(), excluded.end(), rank)) members.push_back(rank);
  }
  auto options = own_options(opts != nullptr ? opts : getBackendOptions());
  const auto parent = lanes_->device_if_made();
  const Deadline deadline = Deadline::after(to_ns(options->timeout));
  // Before the others hear of this member: at the deadline the group is as it was.
  if (!aborts) {
    wait_for_in_flight(*communicator_, deadline);
    if (parent != nullptr) wait_for_in_flight(parent->communicator(), deadline);
  }
  StoreAgreement::Decision decision;
  StoreAgreement agreement(lanes_->store(), {communicator_->group(), members, rank_}, "shrink");
  if (!communicator_->first_error()) {
    agreement.watch([this] {  // another thread may end the group meanwhile
      return communicator_->state() == LifeState::kClosed ? communicator_->first_error() : Error();
    });
  }
  throw_if(agreement.decide("without " + text_of_list(excluded) + (aborts ? ", aborting" : ""),
                            parent != nullptr && parent->communicator().can_shrink(), communicator_->interrupted(),
                            deadline, &decision));

  // The name of a group is that of its keys in the store, which it shares with the old one.
  options->group_name = communicator_->group() + ":shrunk:" + decision.name;
  if (auto& global = options->global_ranks_in_group; global.size() == static_cast<size_t>(size_)) {
    std::vector<uint64_t> stay;
    for (const int member : members) stay.push_back(global[member]);
    global.assign(stay.begin(), stay.end());
  }
  const std::string why = "the group was shrunk without " + rank_list(excluded);
  if (aborts && !decision.all_can) lanes_->abort(why);  // its work on the device would hold up what comes now

  std::shared_ptr<Lanes> lanes;
  const Error made =
      make_shrunk(members, decision.all_can ? parent.get() : nullptr, excluded, aborts, *options, &lanes);
  const std::function<Error()> news = [members = Lanes::members_of(lanes->main())] {
    bool has_left = false;  // it has been told already
    return members(&has_left);
  };
  agreement.watch(aborts ? news : also_asking(communicator_, news));
  // Nobody leaves the old group while another still makes the new one of it, and a failure is everybody's.
  StoreAgreement::Decision all;
  const Error agreed =
      agreement.decide("made " + options->group_name, !made, communicator_->interrupted(), deadline, &all);
  throw_if(made);
  throw_if(agreed);
  if (!all.all_can) throw_error(agreement.failed_elsewhere());
  if (aborts) lanes_->abort(why);
  return c10::intrusive_ptr<Backend>::unsafe_steal_from_new(new Backend(std::move(lanes), std::move(options)));
}

// parent: what the GPU's communicator is made from; null: it is made by the first operation.
Error Backend::make_shrunk(const std::vector<int>& members, const DeviceGroup* parent, const std::vector<int>& excluded,
                           bool aborts, const GroupOptions& options, std::shared_ptr<Lanes>* lanes) {
  const int rank = static_cast<int>(std::find(members.begin(), members.end(), rank_) - members.begin());
  const int size = static_cast<int>(members.size());
  auto hooks = std::make_shared<AbortHooks>();
  const CommunicatorOptions on_cpu = communicator_options(rank, size, options, hooks);
  auto main = std::make_shared<Communicator>(communicator_->engine(), communicator_->runtime(), on_cpu);
  main->set_rendezvous(std::make_unique<StoreRendezvous>(lanes_->store(), options.group_name, rank, size));
  *lanes = std::make_shared<Lanes>(lanes_->store(), main, hooks);
  if (Error error = connect(*main, options.connect)) return error;
  if (parent == nullptr) return {};
  const c10::OptionalDeviceGuard here(parent->device());
  CommunicatorOptions on_gpu = on_cpu;
  const Members ask = Lanes::serve(main, &on_gpu);
  if (!aborts) on_gpu.outer = also_asking(communicator_, on_gpu.outer);
  std::unique_ptr<Communicator> child;
  const auto how = aborts ? Communicator::Shrink::kRevoke : Communicator::Shrink::kWhenIdle;
  if (Error error = parent->communicator().shrink(excluded, how, on_gpu, &child)) return error;
  (*lanes)->adopt(DeviceGroup::around(parent->device(), options.is_high_priority_stream, std::move(child), ask));
  return {};
}

}  // namespace pycomms::c10d_backend

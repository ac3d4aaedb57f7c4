#include "nccl2/c10d/recorded_group.h"

#ifdef C10D_BACKEND_HAS_HOOKS

#include <algorithm>
#include <optional>
#include <vector>

#include "nccl2/c10d/device_group.h"
#include "nccl2/c10d/device_streams.h"
#include "nccl2/c10d/errors.h"
#include "nccl2/c10d/recording.h"
#include "nccl2/c10d/work_poll.h"

namespace pycomms::c10d_backend {
namespace {

OpKind kind_of(::c10d::HookOpName name) {
  switch (name) {
    case ::c10d::HookOpName::SEND:
      return OpKind::kSend;
    case ::c10d::HookOpName::RECV:
      return OpKind::kRecv;
    case ::c10d::HookOpName::BROADCAST:
      return OpKind::kBroadcast;
    case ::c10d::HookOpName::ALLREDUCE:
      return OpKind::kAllReduce;
    case ::c10d::HookOpName::REDUCE:
      return OpKind::kReduce;
    case ::c10d::HookOpName::ALLGATHER:
      return OpKind::kAllGather;
    case ::c10d::HookOpName::REDUCE_SCATTER:
      return OpKind::kReduceScatter;
    case ::c10d::HookOpName::ALLTOALL:
      return OpKind::kAllToAll;
    case ::c10d::HookOpName::BARRIER:
      return OpKind::kBarrier;
    case ::c10d::HookOpName::SCATTER:
      return OpKind::kScatter;
    case ::c10d::HookOpName::GATHER:
      return OpKind::kGather;
    case ::c10d::HookOpName::SPLIT:
      return OpKind::kSplit;
    case ::c10d::HookOpName::NEW_WINDOW:
      return OpKind::kWindow;
    case ::c10d::HookOpName::UNKNOWN:
      break;
  }
  return OpKind::kCoalesced;  // several operations, of which the hook does not say more
}

bool has_peer(OpKind kind) { return kind == OpKind::kSend || kind == OpKind::kRecv; }

void end(const recorder::Entry& entry, const std::exception_ptr& error) {
  if (!error) {
    entry.end(recorder::State::kCompleted, now_ns());
    return;
  }
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    entry.end(recorder::State::kFailed, now_ns(), text_of(e));
  } catch (...) {
    entry.end(recorder::State::kFailed, now_ns(), "an exception of an unknown type");
  }
}

// A call that has not returned, as far as is known.
struct Call {
  uint32_t group;  // its number in the ring: that of no other
  int64_t op;
  recorder::Entry entry;
  std::optional<at::Device> device;  // the GPU that it runs on
};

std::vector<Call>& calls() {
  thread_local std::vector<Call> of_this_thread;
  return of_this_thread;
}

// torch tells nobody when a call raises: the next one of the same thread shows it. One that was only the outer of two is
// put right when it returns.
void doubt_calls_of_this_thread() {
  constexpr size_t kMostNested = 8;
  auto& mine = calls();
  if (mine.size() > kMostNested) mine.erase(mine.begin());
  for (const Call& call : mine) call.entry.end(recorder::State::kRejected, now_ns(), "the call raised an error");
}

std::optional<at::Device> gpu_of(const ::c10d::PreHookArgs& args) {
  const auto& tensors = args.input_tensors.empty() ? args.output_tensors : args.input_tensors;
  if (tensors.empty() || !tensors[0].is_cuda()) return std::nullopt;
  return tensors[0].device();
}

// What a graph captures runs when that is replayed: its Work says nothing.
bool can_be_asked(at::Device gpu) {
  try {
    return gpu.is_cuda() && !device_events(gpu).is_capturing(native(current_stream(gpu)));
  } catch (const std::exception&) {  // no CUDA runtime that we know
    return false;
  }
}

// Null: this Work has none.
c10::intrusive_ptr<c10::ivalue::Future> future_of(::c10d::Work& work) {
  try {
    return work.getFuture();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

void RecordedGroup::attach_to(::c10d::ProcessGroup& group, int64_t hook) {
  group.registerPreHook(hook, [self = shared_from_this()](const ::c10d::PreHookArgs& args) { self->before(args); });
  group.registerPostHook(hook, [self = shared_from_this()](const ::c10d::PostHookArgs& args) { self->after(args); });
}

void RecordedGroup::detach_from(::c10d::ProcessGroup& group, int64_t hook) {
  group.unregisterPreHook(hook);
  group.unregisterPostHook(hook);
}

bool RecordedGroup::is_recorded_elsewhere(const ::c10d::PreHookArgs& args) const {
  if (recorded_elsewhere_.empty()) return false;
  const auto& tensors = args.input_tensors.empty() ? args.output_tensors : args.input_tensors;
  return tensors.empty() || recorded_elsewhere_.count(tensors[0].device().type()) != 0;
}

void RecordedGroup::before(const ::c10d::PreHookArgs& args) {
  if (ring_.is_foreign() || is_recorded_elsewhere(args)) return;
  const OpKind kind = kind_of(args.name);
  recorder::Sizes sizes;
  add_tensors(sizes, args.input_tensors);
  add_tensors(sizes, args.output_tensors);
  sizes.begin(0);  // no splits
  sizes.begin(0);
  recorder::Issue issue;
  issue.group = group_;
  issue.kind = static_cast<uint8_t>(kind);
  issue.flags = late_ | recorder::kInCall | (args.async_op ? recorder::kAsync : 0);
  issue.bytes = bytes_of(args.input_tensors);
  (has_peer(kind) ? issue.peer : issue.root) = static_cast<int32_t>(args.root);
  issue.site = recorded_site(ring_, &issue.stack);

  doubt_calls_of_this_thread();
  if (is_point_to_point(kind)) {
    issue.flags |= recorder::kPointToPoint;
    issue.sequence = ring_.next_request(group_);
  } else {
    issue.sequence = collectives_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  calls().push_back({group_, args.op_id, ring_.begin(issue, sizes), gpu_of(args)});
}

void RecordedGroup::after(const ::c10d::PostHookArgs& args) {
  auto& mine = calls();
  const auto known = std::find_if(mine.begin(), mine.end(),
                                  [&](const Call& call) { return call.group == group_ && call.op == args.op_id; });
  if (known == mine.end()) return;  // issued before we were attached
  const recorder::Entry entry = known->entry;
  std::optional<at::Device> gpu = known->device;
  mine.erase(known);
  entry.returned();
  if (args.work == nullptr) return entry.end(recorder::State::kCompleted, now_ns());
  // A future of a device is complete when the operation is issued, and orders streams behind it.
  const auto future = future_of(*args.work);
  if (!gpu && future != nullptr && !future->devices().empty()) gpu = future->devices()[0];
  if (gpu && !can_be_asked(*gpu)) return entry.give_up();
  if (!gpu && future != nullptr) {
    future->addCallback(
        [entry](c10::ivalue::Future& ended) { end(entry, ended.hasError() ? ended.exception_ptr() : nullptr); });
    return;
  }
  poll_until_ended(args.work, gpu, [entry](WorkEnd how, const std::exception_ptr& error) {
    how == WorkEnd::kEnded ? end(entry, error) : entry.give_up();
  });
}

}  // namespace pycomms::c10d_backend

#endif

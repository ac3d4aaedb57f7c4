// How a communicator fails: what the engine's results mean, the first error, and failures that are learned elsewhere.
#include "nccl2/core/communicator.h"
#include "nccl2/core/failure.h"
#include "nccl2/core/roots.h"

namespace pycomms {
namespace {

// As much later than the engine's own error it may come, on a loaded machine.
constexpr int64_t kNewsOfDeath = 200 * kMillisecond;

}  // namespace

// "collective timeout on rank 1 of group 0: "
std::string Communicator::headline(ErrorKind kind) const {
  const char* what = kind == ErrorKind::kTimeout ? "collective timeout on " : "";
  return what + ("rank " + std::to_string(rank()) + " of group " + options_.group + ": ");
}

Error Communicator::make_error(ErrorKind kind, std::string message) const {
  ErrorDetail detail;
  detail.kind = kind;
  detail.message = headline(kind) + std::move(message);
  detail.group = options_.group;
  detail.rank = rank();
  return Error(std::move(detail));
}

Error Communicator::explain(EngineResult result, const OpState& state) {
  return explain(result, state.kind(), state.sequence());
}

Error Communicator::explain(EngineResult result, OpKind kind, uint64_t sequence) {
  const Explanation explanation = explain_engine(engine_, comm_, result);
  ErrorDetail detail;
  detail.kind = explanation.kind;
  detail.ranks = explanation.ranks;
  // The engine knows that the maker of the unique id is gone, and we know who that was.
  const bool maker_gone = kind == OpKind::kConnect && explanation.kind == ErrorKind::kPeerFailure;
  if (maker_gone && detail.ranks.empty()) detail.ranks = {root_rank(0, size(), 1)};
  detail.op = explanation.op.empty() ? traits(kind).name : explanation.op;
  detail.sequence = explanation.sequence != 0 ? explanation.sequence : sequence;
  detail.group = options_.group;
  detail.rank = rank();
  detail.message = headline(explanation.kind) + explanation.text;
  Error error(std::move(detail));
  return explanation.kind == ErrorKind::kUsage ? error : fail(std::move(error));
}

Error Communicator::explain_served(EngineResult result, OpKind kind, uint64_t sequence) {
  const bool is_usage = result == nccl_abi::kInvalidArgument || result == nccl_abi::kInvalidUsage;
  if (is_usage || engine_.is_host() || !options_.outer) return explain(result, kind, sequence);
  for (const Deadline deadline = Deadline::after(kNewsOfDeath); !deadline.passed();) {
    if (Error gone = options_.outer()) return fail(std::move(gone));
    sleep_for(kMillisecond);
  }
  return explain(result, kind, sequence);
}

// The first failure runs the hook and stays; every later one, its echo, is answered with the first.
Error Communicator::fail(Error error) {
  if (lifecycle_.end(LifeState::kFailed, error) && options_.on_failure) options_.on_failure(first_error());
  Error first = first_error();
  return first ? first : error;
}

template <typename Ask>
Error Communicator::need(Ask ask, OpKind kind) {
  const GateHolder inside(gate_);
  if (!inside || !lifecycle_.is_ready() || was_forked()) {
    if (Error error = check(kind)) return error;
  }
  const EngineResult result = ask();
  return result == nccl_abi::kSuccess ? Error() : explain(result, kind, 0);
}

Error Communicator::need_all(OpKind kind) {
  return need(
      [&] {
        const auto call = engine_.host.comm_need_all;
        return call == nullptr ? nccl_abi::kSuccess : call(comm_, traits(kind).name);
      },
      kind);
}

Error Communicator::need_living(OpKind kind, bool* has_left) {
  int has_closed = 0;
  Error error = need(
      [&] {
        const auto call = engine_.host.comm_need_living;
        return call == nullptr ? nccl_abi::kSuccess : call(comm_, traits(kind).name, &has_closed);
      },
      kind);
  *has_left = has_closed != 0;
  return error;
}

void Communicator::share(const Error& failure) {
  ErrorDetail why = failure.detail();
  if (const std::string ours = headline(why.kind); why.message.starts_with(ours)) why.message.erase(0, ours.size());
  static_cast<void>(give_up(std::move(why)));
}

Error Communicator::give_up(ErrorDetail why) {
  const LifeState before = state();
  why.group = options_.group;
  why.rank = rank();
  const hostccl::Failure failure = to_failure(why);
  why.message = headline(why.kind) + why.message;
  const Error first = fail(Error(std::move(why)));
  const GateHolder inside(gate_);
  if (inside && before == LifeState::kReady && engine_.host.comm_fail != nullptr) {
    static_cast<void>(engine_.host.comm_fail(comm_, &failure));
  }
  return first;
}

}  // namespace pycomms

// What a communicator does for a regroup of its group: it pauses while its successor is made, and serves the successor's
// members to agree.
#include <string>
#include <utility>

#include "nccl2/core/communicator.h"

namespace pycomms {

bool Communicator::is_anybody_inside() const {
  return gate_.has_callers() || !lane_->in_flight().is_empty() || !lane_->is_idle();
}

void Communicator::pause(const std::string& why) {
  const bool is_first = lifecycle_.advance(LifeState::kReady, LifeState::kRegrouping);
  // Whoever waits until it has connected would keep the regroup waiting, too.
  const bool connects = state() == LifeState::kNew || state() == LifeState::kConnecting;
  if ((!is_first && !connects) || !is_anybody_inside()) return;
  // Cancelled before the engine stops it: whatever it leaves behind is no result.
  const Error error = make_error(ErrorKind::kRevoked, why);
  if (!lifecycle_.end(connects ? LifeState::kFailed : LifeState::kRevoked, error)) return;
  lane_->in_flight().cancel_all(error);
  tell_members(why);
}

void Communicator::end_pause() { lifecycle_.advance(LifeState::kRegrouping, LifeState::kReady); }

Error Communicator::exchange(OpKind kind, const void* mine, size_t bytes, void* all, Deadline deadline) {
  const GateHolder inside(gate_);
  if (!inside || !lifecycle_.is_ready() || was_forked()) {
    if (Error error = check(kind)) return error;
  }
  std::vector<int> missing(static_cast<size_t>(size()));
  int count = 0;
  const EngineResult result = engine_.host.exchange(comm_, mine, all, bytes, deadline.left(), missing.data(), &count);
  if (result == nccl_abi::kSuccess) return {};
  if (count == 0) return explain(result, kind, 0);
  missing.resize(static_cast<size_t>(count));
  ErrorDetail detail = make_error(ErrorKind::kTimeout, "").detail();
  detail.op = traits(kind).name;
  std::string who;
  for (const int rank : missing) who += (who.empty() ? "rank " : ", rank ") + std::to_string(rank);
  detail.message += detail.op + ": " + who + " did not come in time";
  detail.ranks = std::move(missing);
  return Error(std::move(detail));
}

}  // namespace pycomms

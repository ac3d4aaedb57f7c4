// How a communicator comes to be ready: the unique ids, the engine's init, and the wait for it.
#include "nccl2/core/backoff.h"
#include "nccl2/core/communicator.h"
#include "nccl2/core/failure.h"
#include "nccl2/core/interrupt.h"
#include "nccl2/core/roots.h"

namespace pycomms {
namespace {

// A fingerprint (FNV-1a); never 0.
uint64_t identity_of(const UniqueId& id) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : id.internal) hash = (hash ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
  return hash | 1;
}

}  // namespace

Error Communicator::start() {
  if (rendezvous_ == nullptr || started_.exchange(true)) return {};
  const Deadline deadline = Deadline::after(timeout());
  std::vector<UniqueId> ids;
  if (Error error = exchange_ids(&ids, deadline)) return fail(std::move(error));
  identity_ = identity_of(ids.front());

  nccl_abi::Config config;
  config.blocking = 0;
  config.comm_name = options_.group.c_str();
  if (engine_.host.set_init_timeout != nullptr) engine_.host.set_init_timeout(deadline.left());
  CommHandle comm = nullptr;
  const NcclApi& nccl = engine_.nccl;
  const EngineResult result =
      ids.size() == 1
          ? nccl.comm_init_rank_config(&comm, size(), ids[0], rank(), &config)
          : nccl.comm_init_rank_scalable(&comm, size(), rank(), static_cast<int>(ids.size()), ids.data(), &config);
  if (comm != nullptr) adopt(comm);
  if (result == nccl_abi::kSuccess || result == nccl_abi::kInProgress) return {};
  return fail(make_error(ErrorKind::kSystem, "cannot connect: " + last_engine_text(engine_, comm)));
}

Error Communicator::exchange_ids(std::vector<UniqueId>* ids, Deadline deadline) {
  const int roots = engine_.nccl.comm_init_rank_scalable != nullptr ? root_count(size(), options_.ranks_per_root) : 1;
  ids->resize(roots);
  for (int i = 0; i < roots; ++i) {
    if (rank() != root_rank(i, size(), roots)) continue;
    if (Error error = rendezvous_->make(engine_, i, size() == 1, &(*ids)[i], deadline)) return error;
  }
  for (int i = 0; i < roots; ++i) {
    const int root = root_rank(i, size(), roots);
    if (root == rank()) continue;
    if (Error error = rendezvous_->fetch(i, root, &(*ids)[i], deadline)) return error;
  }
  return {};
}

void Communicator::adopt(CommHandle comm) {
  comm_ = comm;
  lane_->open(comm);
  lifecycle_.advance(LifeState::kNew, LifeState::kConnecting);
}

Error Communicator::become_ready(Deadline deadline) {
  if (lifecycle_.is_ready()) return {};
  if (Error error = start()) return error;
  Backoff backoff;
  int64_t next_poll = now_ns() + kInterruptPoll;
  for (;;) {
    const LifeState now_in = state();
    if (now_in == LifeState::kReady) return {};
    if (now_in == LifeState::kSuspended) {
      return make_error(ErrorKind::kUsage, "it is suspended: call resume() on every rank first");
    }
    if (Lifecycle::has_ended(now_in)) return first_error();
    if (now_in == LifeState::kRegrouping) {
      return make_error(ErrorKind::kUsage, "it is being regrouped: wait for the regroup's Work first");
    }
    if (now_in == LifeState::kNew && rendezvous_ == nullptr) {
      return make_error(ErrorKind::kUsage, "it has no members yet: it was made with enable_reconfigure, regroup first");
    }
    // kNew: another thread is on its way through start().
    EngineResult progress = nccl_abi::kInProgress;
    if (now_in == LifeState::kConnecting) progress = async_state(engine_.nccl, comm_);
    if (progress == nccl_abi::kSuccess) {
      if (Error error = check_membership()) return fail(std::move(error));
      lifecycle_.advance(LifeState::kConnecting, LifeState::kReady);
      continue;
    }
    if (progress != nccl_abi::kInProgress) return explain_served(progress, OpKind::kConnect, 0);

    const int64_t now = now_ns();
    if (deadline.passed(now)) return make_error(ErrorKind::kTimeout, "it is still connecting: not all ranks have come");
    if (Error error = interruption("while connecting", options_.outer, now, &next_poll)) return error;
    backoff.pause();
  }
}

Error Communicator::interruption(const char* doing, const std::function<Error()>& outer, int64_t now,
                                 int64_t* next_poll) const {
  if (now < *next_poll) return {};
  *next_poll = now + kInterruptPoll;
  if (options_.interrupted != nullptr && options_.interrupted()) {
    return make_error(ErrorKind::kInterrupted, std::string("interrupted ") + doing);
  }
  return outer ? outer() : Error();
}

// A split in which ranks disagree about who is in gives a communicator of another size or order.
Error Communicator::check_membership() {
  int count = 0;
  int rank = -1;
  if (engine_.nccl.comm_count(comm_, &count) != nccl_abi::kSuccess) return {};
  if (engine_.nccl.comm_user_rank(comm_, &rank) != nccl_abi::kSuccess) return {};
  if (count == size() && rank == this->rank()) return {};
  return make_error(ErrorKind::kMismatch,
                    "this rank expected to be rank " + std::to_string(this->rank()) + " of " + std::to_string(size()) +
                        " but the ranks formed a communicator in which it is " + std::to_string(rank) + " of " +
                        std::to_string(count) + ": do all ranks create and split groups in the same order?");
}

}  // namespace pycomms

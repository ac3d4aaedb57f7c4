// P2p, how requests end that do not arrive: deadlines, peers that are gone, failures; and how they are named.

#include <algorithm>

#include "hostccl/failures.h"
#include "hostccl/p2p_channel.h"
#include "hostccl/p2p_waiting.h"

namespace hostccl {

void P2p::end_all(Result result, std::vector<Finished>& finished) {
  for_each_queue([&](Queue& queue) {
    for (const Pending& pending : queue) {
      if (!pending.is_clear_to_send) finish(pending, result, finished);
    }
    queue.clear();
  });
  receives_->clear();
}

void P2p::check_deadlines(int64_t now) {
  std::vector<Finished> finished;
  {
    std::lock_guard lock(mutex_);
    if (now >= first_deadline_ns_) fail_if_overdue(now);
    if (segment_.has_failed()) end_all(result_of(segment_.failure().kind), finished);
  }
  call(finished);
}

void P2p::fail_if_overdue(int64_t now) {
  const Pending* overdue = nullptr;
  first_deadline_ns_ = kNoDeadline;
  for_each_queue([&](const Queue& queue) {
    for (const Pending& pending : queue) {
      const int64_t deadline = pending.deadline_ns();
      first_deadline_ns_ = std::min(first_deadline_ns_, deadline);
      if (deadline <= now && (overdue == nullptr || pending.id < overdue->id)) overdue = &pending;
    }
  });
  if (overdue != nullptr) segment_.fail(timeout_of(segment_, name(overdue->request), now - overdue->posted_ns));
}

bool P2p::needs(int peer) {
  std::vector<Finished> finished;
  bool needed = false;
  {
    std::lock_guard lock(mutex_);
    // What the peer left in the channel still arrives: only when nothing moves any more is something missing.
    if (!advance(finished)) {
      for_each_queue([&](const Queue& queue) {
        for (const Pending& pending : queue) {
          const int from = pending.request.peer;
          needed |= !pending.is_clear_to_send && (from == peer || (from == kAnySource && all_others_closed()));
        }
      });
    }
  }
  call(finished);
  return needed;
}

bool P2p::all_others_closed() const {
  for (int rank = 0; rank < segment_.nranks(); ++rank) {
    const Presence presence = segment_.block(rank).presence.load(std::memory_order_acquire);
    if (rank != segment_.rank() && presence != Presence::kClosed) return false;
  }
  return true;
}

OperationName P2p::name(const P2pRequest& request) const {
  const std::string peer = request.peer == kAnySource ? "any rank" : "rank " + std::to_string(request.peer);
  const size_t elements = request.bytes / std::max<size_t>(element_size(request.type), 1);
  return {request.is_send ? "send" : "recv",
          std::string(request.is_send ? "send to " : "recv from ") + peer + " tag " + std::to_string(request.tag) +
              " " + type_name(request.type) + "[" + std::to_string(elements) + "]",
          request.peer};
}

OperationName P2p::name_of_oldest() {
  std::lock_guard lock(mutex_);
  const Pending* oldest = nullptr;
  for_each_queue([&](const Queue& queue) {
    for (const Pending& pending : queue) {
      if (!pending.is_clear_to_send && (oldest == nullptr || pending.id < oldest->id)) oldest = &pending;
    }
  });
  return oldest != nullptr ? name(oldest->request) : OperationName{"send or recv", "point to point", -1};
}

}  // namespace hostccl

#include "hostccl/failures.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "hostccl/segment.h"

namespace hostccl {

Failure make_failure(FailureKind kind, int reporter, const std::string& text) {
  Failure failure{};
  failure.kind = kind;
  failure.reporter = reporter;
  set_text(failure, text);
  return failure;
}

void add_rank(Failure& failure, int rank) {
  const int* const begin = failure.ranks;
  const int* const end = begin + failure.nranks;
  if (failure.nranks == kMaxFailedRanks || std::find(begin, end, rank) != end) return;
  failure.ranks[failure.nranks++] = rank;
}

void set_text(Failure& failure, const std::string& text) {
  const size_t length = std::min(text.size(), sizeof(failure.text) - 1);
  std::memcpy(failure.text, text.data(), length);
  failure.text[length] = '\0';
}

Result result_of(FailureKind kind) {
  switch (kind) {
    case FailureKind::kNone:
      return nccl_abi::kSuccess;
    case FailureKind::kMismatch:
      return nccl_abi::kInvalidUsage;
    case FailureKind::kPeerDead:
    case FailureKind::kAborted:
    case FailureKind::kPeerClosed:
      return nccl_abi::kRemoteError;
    case FailureKind::kTimeout:
      return nccl_abi::kTimeout;
    case FailureKind::kInterrupted:
      return nccl_abi::kInternalError;
    case FailureKind::kSystem:
      return nccl_abi::kSystemError;
    case FailureKind::kUsage:
      return nccl_abi::kInvalidArgument;
  }
  return nccl_abi::kInternalError;
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) text += (i ? ", " : "") + std::to_string(ranks[i]);
  return text;
}

std::string seconds(int64_t ns) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.3g s", static_cast<double>(ns) / pycomms::kSecond);
  return text;
}

namespace {

// When a host is lost, all its ranks are.
Failure loss_of(const Segment& segment, int peer, const std::string& while_in) {
  std::vector<int> lost;
  for (const int rank : segment.places().ranks_on(segment.places().host_of(peer))) {
    if (rank == peer || is_dead(segment.block(rank).life)) lost.push_back(rank);
  }
  const std::string why = segment.why_gone(peer);
  Failure failure = make_failure(FailureKind::kPeerDead, segment.rank(),
                                 rank_list(lost) + ", on another host, " + (lost.size() > 1 ? "are" : "is") + " gone" +
                                     (why.empty() ? "" : " (" + why + ")") + "; seen by rank " +
                                     std::to_string(segment.rank()) + " in " + while_in);
  for (const int rank : lost) add_rank(failure, rank);
  return failure;
}

}  // namespace

Failure death_of(const Segment& segment, int peer, const std::string& while_in) {
  if (!segment.is_here(peer)) return loss_of(segment, peer, while_in);
  const int pid = segment.block(peer).pid.load(std::memory_order_relaxed);
  std::string how = how_it_ended(pid);
  if (how.empty()) how = "died";
  Failure failure = make_failure(FailureKind::kPeerDead, segment.rank(),
                                 "rank " + std::to_string(peer) + " (process " + std::to_string(pid) + ") " + how +
                                     "; seen by rank " + std::to_string(segment.rank()) + " in " + while_in);
  add_rank(failure, peer);
  return failure;
}

Failure closing_of(const Segment& segment, int peer, const std::string& while_in) {
  Failure failure = make_failure(FailureKind::kPeerClosed, segment.rank(),
                                 "rank " + std::to_string(peer) + " closed its communicator while rank " +
                                     std::to_string(segment.rank()) + " waited for it in " + while_in);
  add_rank(failure, peer);
  return failure;
}

}  // namespace hostccl

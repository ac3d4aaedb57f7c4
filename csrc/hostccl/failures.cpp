#include "hostccl/failures.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/clock.h"
#include "hostccl/segment.h"

namespace hostccl {
namespace {

// Bytes of the UTF-8 character that begins here; 0: there is none. Ends at the latest before the zero behind the text.
size_t character_bytes(const char* at) {
  const auto byte = [at](size_t i) { return static_cast<unsigned char>(at[i]); };
  const auto first = byte(0);
  if (first < 0x80) return 1;
  const size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  uint32_t code = first & (0x7f >> bytes);
  for (size_t i = 1; i < bytes; ++i) code = code << 6 | (byte(i) & 0x3f);
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return first >= 0xc2 && first < 0xf5 && code >= kLeast[bytes] && code < 0x110000 && !is_surrogate ? bytes : 0;
}

// Python refuses to show what is not UTF-8, and terminals obey control characters.
template <size_t kSize>
void make_readable(char (&text)[kSize]) {
  text[kSize - 1] = '\0';
  for (char* at = text; *at != '\0';) {
    const size_t bytes = character_bytes(at);
    const bool is_control = (static_cast<unsigned char>(*at) < 0x20 && *at != '\n' && *at != '\t') || *at == 0x7f;
    if (bytes == 0 || is_control) *at = '?';
    at += std::max<size_t>(bytes, 1);
  }
}

}  // namespace

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
  make_readable(failure.text);  // it may have been cut within a character, or quote bytes from elsewhere
}

void set_op(Failure& failure, const char* op) { std::snprintf(failure.op, sizeof(failure.op), "%s", op); }

void make_harmless(Failure& failure, int nranks) {
  if (failure.kind <= FailureKind::kNone || failure.kind > FailureKind::kUsage) failure.kind = FailureKind::kSystem;
  const auto is_rank = [nranks](int rank) { return rank >= 0 && rank < nranks; };
  if (!is_rank(failure.reporter)) failure.reporter = -1;
  int* const end = failure.ranks + std::clamp(failure.nranks, 0, kMaxFailedRanks);
  failure.nranks = static_cast<int>(std::stable_partition(failure.ranks, end, is_rank) - failure.ranks);
  make_readable(failure.op);
  make_readable(failure.text);
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

Failure nonsense_of(const Segment& segment, int peer, const std::string& what) {
  Failure failure = make_failure(FailureKind::kSystem, segment.rank(), what + " (do all ranks run the same build?)");
  add_rank(failure, peer);
  return failure;
}

}  // namespace hostccl

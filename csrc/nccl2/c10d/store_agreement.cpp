#include "nccl2/c10d/store_agreement.h"

#include <sstream>

#include "nccl2/c10d/errors.h"
#include "nccl2/core/interrupt.h"
#include "nccl2/core/regroup_handle.h"

namespace pycomms::c10d_backend {
namespace {

constexpr int64_t kAskEvery = 5 * kMillisecond;

// States of a member's note. Keys are overwritten and never removed: to get one that is gone would block.
constexpr const char* kHere = "here";
constexpr const char* kTaken = "taken";  // the decision has been read; the nonce is the decision's name
constexpr const char* kGone = "gone";

}  // namespace

// "state nonce can proposal"; of the decision: "state name can nonce,nonce,..."
struct StoreAgreement::Note {
  std::string state;
  std::string nonce;
  bool can = false;
  std::string text;
};

Error StoreAgreement::decide(const std::string& proposal, bool can, bool (*interrupted)(), Deadline deadline,
                             Decision* decision) {
  interrupted_ = interrupted;
  deadline_ = deadline;
  const Note mine{kHere, fresh_nonce(), can, proposal};
  try {
    write(parties_.rank, mine);
    Error failed = parties_.rank == parties_.members.front() ? lead(mine, decision) : follow(mine, decision);
    write(parties_.rank, {failed ? kGone : kTaken, decision->name, can, proposal});
    return failed;
  } catch (const std::exception& e) {
    return error(ErrorKind::kSystem, {}, "the store does not answer: " + text_of(e));
  }
}

Error StoreAgreement::lead(const Note& mine, Decision* decision) {
  const auto absent = [&] { return others_without(kHere); };
  std::vector<int> unlike;
  const auto is_enough = [&] {
    unlike = others_unlike(mine.text);
    return !unlike.empty() || absent().empty();
  };
  if (Error late = until(is_enough, absent)) return late;
  std::string nonces;
  decision->all_can = true;
  for (const int rank : parties_.members) {
    const Note note = rank == parties_.rank ? mine : read(rank);
    decision->all_can = decision->all_can && note.can;
    nonces += "," + note.nonce;
  }
  decision->name = fresh_nonce();
  const Note decided{unlike.empty() ? "go" : "differ", decision->name, decision->all_can, nonces};
  std::ostringstream value;
  value << decided.state << ' ' << decided.nonce << ' ' << decided.can << ' ' << decided.text;
  store_->set(key("decision"), value.str());
  if (!unlike.empty()) {
    return error(ErrorKind::kMismatch, unlike, rank_list(unlike) + " wanted something else than " + mine.text);
  }
  // Nobody's note may be taken for one of the next time.
  const auto unread = [&] { return others_without(kTaken, decision->name); };
  return until([&] { return unread().empty(); }, unread);
}

Error StoreAgreement::follow(const Note& mine, Decision* decision) {
  Note decided;
  const auto is_decided = [&] {
    if (!store_->check({key("decision")})) return false;
    std::istringstream value(store_->get_to_str(key("decision")));
    value >> decided.state >> decided.nonce >> decided.can >> decided.text;
    return (decided.text + ",").find("," + mine.nonce + ",") != std::string::npos;  // an older one was not for us
  };
  if (Error late = until(is_decided, [&] { return others_without(kHere); })) return late;
  decision->all_can = decided.can;
  decision->name = decided.nonce;
  if (decided.state == "go") return {};
  return error(ErrorKind::kMismatch, {}, "the members do not want the same; this one wanted " + mine.text);
}

template <typename Look, typename Absent>
Error StoreAgreement::until(Look&& look, Absent&& absent_now) {
  for (int64_t next_poll = now_ns() + kInterruptPoll; !look(); sleep_for(kAskEvery)) {
    const int64_t now = now_ns();
    if (deadline_.passed(now)) {
      std::vector<int> absent = absent_now();
      const std::string who = absent.empty() ? "a member has not answered" : rank_list(absent) + " did not come";
      return error(ErrorKind::kTimeout, std::move(absent), who + " before the deadline");
    }
    if (now < next_poll) continue;
    next_poll = now + kInterruptPoll;
    if (interrupted_ != nullptr && interrupted_()) return error(ErrorKind::kInterrupted, {}, "interrupted");
    if (watched_ == nullptr) continue;
    if (Error ended = watched_()) return ended;
  }
  return {};
}

std::vector<int> StoreAgreement::others_without(const std::string& state, const std::string& nonce) {
  std::vector<int> found;
  for (const int rank : parties_.members) {
    if (rank == parties_.rank) continue;
    const Note note = read(rank);
    if (note.state != state || (!nonce.empty() && note.nonce != nonce)) found.push_back(rank);
  }
  return found;
}

std::vector<int> StoreAgreement::others_unlike(const std::string& proposal) {
  std::vector<int> found;
  for (const int rank : parties_.members) {
    if (rank == parties_.rank) continue;
    const Note note = read(rank);
    if (note.state == kHere && note.text != proposal) found.push_back(rank);
  }
  return found;
}

StoreAgreement::Note StoreAgreement::read(int rank) {
  Note note;
  const std::string place = key(std::to_string(rank));
  if (!store_->check({place})) return note;
  std::istringstream value(store_->get_to_str(place));
  value >> note.state >> note.nonce >> note.can;
  std::getline(value >> std::ws, note.text);
  return note;
}

void StoreAgreement::write(int rank, const Note& note) {
  std::ostringstream value;
  value << note.state << ' ' << (note.nonce.empty() ? "-" : note.nonce) << ' ' << note.can << ' ' << note.text;
  store_->set(key(std::to_string(rank)), value.str());
}

Error StoreAgreement::error(ErrorKind kind, std::vector<int> ranks, const std::string& text) const {
  ErrorDetail detail;
  detail.kind = kind;
  detail.message = "rank " + std::to_string(parties_.rank) + " of group " + parties_.group + ": " + what_ + ": " + text;
  detail.ranks = std::move(ranks);
  detail.op = what_;
  detail.group = parties_.group;
  detail.rank = parties_.rank;
  return Error(std::move(detail));
}

}  // namespace pycomms::c10d_backend

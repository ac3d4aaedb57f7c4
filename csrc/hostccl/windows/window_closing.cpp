// How a window ends: each rank tells all others that it closes its part, and waits until it has heard the same of them.
#include <algorithm>

#include "hostccl/failures.h"
#include "hostccl/windows/wait.h"
#include "hostccl/windows/window.h"

namespace hostccl {
namespace {

using pycomms::Code;
using pycomms::Deadline;
using pycomms::Status;

constexpr char kClosingAWindow[] = "closing a window";
constexpr int64_t kCloseTimeout = 5 * pycomms::kSecond;
// A rank that is stopped must not keep the news from the others.
constexpr int64_t kToTellOne = 200 * pycomms::kMillisecond;
constexpr int64_t kToTellAll = 2 * pycomms::kSecond;  // when nobody waits for it

}  // namespace

Window::~Window() {
  std::vector<int> about;
  static_cast<void>(close(false, Deadline::after(kCloseTimeout), &about));
}

// Whoever fails while the others close has nothing to wait for: the window ends here in any case.
Status Window::close(bool together, Deadline deadline, std::vector<int>* about) {
  Status ended;
  if (!mine_ || mine_->is_closed() || site_->is_foreign()) return ended;
  {
    const Inside inside(*this);
    bool have_met = false;
    if (inside && together && !site_->segment().has_failed()) {
      int whom = -1;
      ended = fence(-1, deadline.left(), &whom);
      if (whom != -1) *about = {whom};
      // What was lost with a window that is closed there was to be told by the call that put it, or a flush.
      if (ended.is_ok() || ended.code() == Code::kPeerFailure) {
        about->clear();
        ended = meet_to_close(deadline, about);
        have_met = ended.is_ok();
      }
      const bool is_nobodys_error = ended.code() == Code::kPeerFailure || ended.code() == Code::kCancelled ||
                                    ended.code() == Code::kInvalidState;  // the communicator, or a member, has ended
      if (is_nobodys_error) ended = Status::ok();
    }
    mine_->control().state.store(WindowState::kClosed, std::memory_order_seq_cst);
    wake(mine_->control().signalled);
    if (inside && !have_met) {
      const bool is_misordered = ended.code() == Code::kMismatch;
      const Status told =
          tell_all(is_misordered ? WindowState::kMisordered : WindowState::kClosed, Deadline::after(kToTellAll));
      if (ended.is_ok()) ended = told;
    }
  }
  if (!site_->remove(number_)) {
    return {Code::kTimeout, "another rank was still at work in the window when the time to close it had passed"};
  }
  return ended;
}

// Whoever has died or closed need not hear it, and whoever does not answer in time may have heard it; kInterrupted is an error.
Status Window::tell_all(WindowState state, Deadline deadline) const {
  if (!is_made_) return Status::ok();  // its number may be that of another one
  std::vector<int> served;
  for (int rank = 0; rank < nranks(); ++rank) {
    const Peer& there = peer(rank);
    if (there.is_served) {
      served.push_back(rank);
    } else if (rank != this->rank()) {
      tell_state(there.memory, this->rank(), state);
    }
  }
  while (!served.empty()) {
    std::vector<int> silent;
    for (const int rank : served) {
      if (is_over(mine_->told_by(rank))) continue;
      const auto limit = Deadline::after(std::min(deadline.left(), kToTellOne));
      const Status told = site_->remote()->tell(rank, number_, state, limit);
      if (told.code() == Code::kInterrupted) return told;
      if (told.code() == Code::kTimeout) silent.push_back(rank);
    }
    if (deadline.passed()) break;
    served = std::move(silent);
  }
  return Status::ok();
}

std::vector<int> Window::missing_to_close() const {
  std::vector<int> ranks;
  for (int rank = 0; rank < nranks(); ++rank) {
    const bool is_open = rank != this->rank() && mine_->told_by(rank) == WindowState::kOpen;
    if (is_open && site_->trouble_with(rank).is_ok()) ranks.push_back(rank);
  }
  return ranks;
}

// Whoever closes another window first would be waited for in vain, and so would this rank.
Status Window::order_of_closing(const std::vector<int>& missing, std::vector<int>* about) const {
  int culprit = -1;
  for (int rank = 0; rank < nranks() && culprit == -1; ++rank) {
    if (rank != this->rank() && mine_->told_by(rank) == WindowState::kMisordered) culprit = rank;
  }
  for (const int rank : missing) {
    if (culprit == -1 && site_->closes_another(rank, number_)) culprit = rank;
  }
  if (culprit == -1) return Status::ok();
  *about = {culprit};
  return {Code::kMismatch, std::string(kClosingAWindow) + ": rank " + std::to_string(culprit) +
                               " is closing another window than rank " + std::to_string(this->rank()) +
                               ", and each would wait for the other: all ranks must close their windows in the same "
                               "order"};
}

// Whoever has closed his window by himself will not come.
Status Window::meet_to_close(Deadline deadline, std::vector<int>* about) {
  const int64_t started = pycomms::now_ns();
  mine_->control().state.store(WindowState::kClosing, std::memory_order_seq_cst);
  PYCOMMS_RETURN_IF_ERROR(tell_all(WindowState::kClosing, deadline));
  BellWait wait(mine_->control().signalled, site_->patience(), deadline);
  const Status met = wait.until([this] { return missing_to_close().empty(); },
                                [&] {
                                  if (site_->segment().has_failed()) return Status(Code::kPeerFailure, "");
                                  return order_of_closing(missing_to_close(), about);
                                });
  // Those who were met may have failed to close with somebody else.
  if (met.is_ok()) return order_of_closing({}, about);
  if (met.code() != Code::kTimeout) return met;
  *about = missing_to_close();
  return {Code::kTimeout, std::string(kClosingAWindow) + " timed out after " + seconds(pycomms::now_ns() - started) +
                              ": " + rank_list(*about) + " did not come"};
}

}  // namespace hostccl

#include "hostccl/external_issue.h"

#include <deque>
#include <memory>
#include <utility>

#include "hostccl/external_streams.h"

namespace hostccl {
namespace {

constexpr int kGone = 1;  // a graph asks for an operation whose communicator is no more

// What a stream runs, once or with each launch of a graph.
class Work {
 public:
  virtual ~Work() = default;
  virtual int run() = 0;
};

Result launch(StreamHandle stream, const std::string& what, std::unique_ptr<Work> work) {
  auto run = [](void* arg) { return static_cast<Work*>(arg)->run(); };
  auto destroy = [](void* arg) { delete static_cast<Work*>(arg); };
  if (external_streams()->launch(stream, what.c_str(), run, destroy, work.get()) != 0) {
    return nccl_abi::kUnhandledCudaError;
  }
  static_cast<void>(work.release());
  return nccl_abi::kSuccess;
}

// Where the streams of one batch meet. The counts go on over all launches of a graph.
struct Meeting {
  explicit Meeting(uint64_t n) : guests(n) {}
  const uint64_t guests;               // streams besides the one that runs the batch
  std::atomic<uint64_t> arrivals{0};   // of guests
  std::atomic<uint64_t> endings{0};    // of the batch
  std::atomic<bool> abandoned{false};  // the batch will never run (again)
};

// A stream that the batch does not run on: comes to the meeting and stays until the batch has ended.
class Guest final : public Work {
 public:
  Guest(std::shared_ptr<Meeting> meeting, std::shared_ptr<IssueOrder> order, std::string what, int64_t timeout_ns)
      : meeting_(std::move(meeting)), order_(std::move(order)), what_(std::move(what)), timeout_ns_(timeout_ns) {}

  int run() override {
    const uint64_t ending = ++runs_;
    const pycomms::GateHolder inside(order_->gate());
    meeting_->arrivals.fetch_add(1, std::memory_order_seq_cst);
    if (!inside) return 0;
    Communicator& comm = order_->communicator();
    comm.wake_waiters();
    auto over = [&] {
      return meeting_->endings.load(std::memory_order_acquire) >= ending ||
             meeting_->abandoned.load(std::memory_order_acquire);
    };
    static_cast<void>(comm.wait_for_turn(what_, timeout_ns_, over));  // failed: the batch tells
    return 0;
  }

 private:
  const std::shared_ptr<Meeting> meeting_;
  const std::shared_ptr<IssueOrder> order_;
  const std::string what_;
  const int64_t timeout_ns_;
  uint64_t runs_ = 0;
};

// The batch itself.
class Execution final : public Work {
 public:
  Execution(Batch batch, std::string what, uint64_t capture, std::shared_ptr<Meeting> meeting)
      : batch_(std::move(batch)), what_(std::move(what)), is_captured_(capture != 0), meeting_(std::move(meeting)) {
    for (Communicator* comm : batch_.communicators()) {
      members_.push_back({comm->order(), comm->order()->take(capture), comm->timeout_ns()});
    }
  }
  ~Execution() override {
    if (meeting_ != nullptr) meeting_->abandoned.store(true, std::memory_order_seq_cst);
  }

  int run() override {
    const bool ran = run_inside();
    for (Member& member : members_) member.place.pass();
    return ran || !is_captured_ ? 0 : kGone;  // what was issued before an abort ends in silence
  }

 private:
  struct Member {
    std::shared_ptr<IssueOrder> order;
    IssueOrder::Place place;
    int64_t timeout_ns;
  };

  // False: a communicator is no more.
  bool run_inside() {
    std::deque<pycomms::GateHolder> inside;
    bool all_there = true;
    for (const Member& member : members_) all_there &= static_cast<bool>(inside.emplace_back(member.order->gate()));
    if (all_there) {
      if (gather()) static_cast<void>(batch_.run(false));  // its failure is the communicator's
    } else {
      for (size_t i = 0; i < members_.size(); ++i) {
        if (inside[i])
          members_[i].order->communicator().cancel(what_ + " was in one group with another communicator's");
      }
    }
    if (meeting_ != nullptr) end_meeting(inside);
    return all_there;
  }

  // Waits for the turn on each communicator and for the other streams. A turn that does not come has made its communicator
  // fail, and the operations there end at once; but not to wait for a stream would be to touch memory that is in use.
  bool gather() {
    for (const Member& member : members_) {
      const auto has_come = [&] { return member.place.has_come(); };
      static_cast<void>(member.order->communicator().wait_for_turn(what_, member.timeout_ns, has_come));
    }
    if (meeting_ == nullptr) return true;
    const Member& host = members_.front();
    const uint64_t expected = ++runs_ * meeting_->guests;
    const auto all_came = [&] { return meeting_->arrivals.load(std::memory_order_acquire) >= expected; };
    return host.order->communicator().wait_for_turn(what_, host.timeout_ns, all_came);
  }

  void end_meeting(const std::deque<pycomms::GateHolder>& inside) {
    meeting_->endings.fetch_add(1, std::memory_order_seq_cst);
    if (inside.front()) members_.front().order->communicator().wake_waiters();
  }

  Batch batch_;
  const std::string what_;
  const bool is_captured_;
  const std::shared_ptr<Meeting> meeting_;  // null: there is one stream
  std::vector<Member> members_;
  uint64_t runs_ = 0;
};

}  // namespace

Result issue_externally(Batch batch, StreamHandle stream, const std::vector<StreamHandle>& others) {
  const ExternalStreams& owner = *external_streams();
  if (owner.bytes != nullptr) batch.relocate(owner.bytes);
  const std::string what = batch.describe();
  Communicator& host = *batch.communicators().front();
  const uint64_t capture = owner.capture_of != nullptr ? owner.capture_of(stream) : 0;
  const auto meeting = others.empty() ? nullptr : std::make_shared<Meeting>(others.size());
  auto execution = std::make_unique<Execution>(std::move(batch), what, capture, meeting);
  // The guests first: if one is refused, those before it find the meeting abandoned.
  for (const StreamHandle other : others) {
    auto guest = std::make_unique<Guest>(meeting, host.order(), what, host.timeout_ns());
    if (const Result refused = launch(other, what, std::move(guest)); refused != nccl_abi::kSuccess) return refused;
  }
  return launch(stream, what, std::move(execution));
}

}  // namespace hostccl

#include "hostccl/roll_call.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstring>

#include "hostccl/failures.h"
#include "hostccl/p2p_waiting.h"

namespace hostccl {
namespace {

constexpr int64_t kLastLook = 20 * pycomms::kMillisecond;

constexpr int arrival_tag(RollCallKind kind) { return INT_MIN + 2 * static_cast<int>(kind); }
constexpr int verdict_tag(RollCallKind kind) { return arrival_tag(kind) + 1; }
static_assert(verdict_tag(RollCallKind::kGrow) < INT_MIN + kReservedTags);

OperationName name_of(RollCallKind kind) {
  const char* op = "";
  switch (kind) {
    case RollCallKind::kMonitoredBarrier:
      op = "monitored_barrier";
      break;
    case RollCallKind::kSplit:
      op = "split";
      break;
    case RollCallKind::kWindow:
      op = "window registration";
      break;
    case RollCallKind::kExchange:
      op = "exchange";
      break;
    case RollCallKind::kGrow:
      op = "grow";
      break;
  }
  return {op, op, -1};
}

// A rank that gave up withdraws, so that rank 0 does not count it the next time.
struct Arrival {
  uint64_t nonce;
  uint32_t withdrawn;
  Report report;
};

// A request whose end can be awaited.
struct Tracked : P2pEnding {
  uint64_t id = 0;
  std::vector<std::byte> data;
};

class RollCall {
 public:
  RollCall(const Segment& segment, const PeerWatch& watch, P2p& p2p, RollCallKind kind, const Report& mine,
           int64_t timeout_ns)
      : segment_(segment),
        p2p_(p2p),
        kind_(kind),
        mine_(mine),
        deadline_(pycomms::Deadline::after(timeout_ns)),
        waiting_(segment, p2p, [kind] { return name_of(kind); }),
        waiter_(segment, watch, waiting_, Patience::of_members(segment), pycomms::kForever, true),
        n_(static_cast<size_t>(segment.nranks())) {}

  RollCallResult lead() {
    std::vector<Arrival> arrivals(n_);
    std::vector<bool> here(n_, false);
    std::vector<Tracked> open(n_);
    std::memcpy(&arrivals[0].report, &mine_, sizeof(mine_));
    here[0] = true;
    for (size_t rank = 1; rank < n_; ++rank) receive(open[rank], rank, arrival_tag(kind_), sizeof(Arrival));
    auto all_here = [&] {
      for (size_t rank = 1; rank < n_; ++rank) {
        // All that has come: an arrival may be followed by its withdrawal, and that by a new arrival.
        while (open[rank].has_come.load(std::memory_order_acquire) && open[rank].result == nccl_abi::kSuccess) {
          std::memcpy(&arrivals[rank], open[rank].data.data(), sizeof(Arrival));
          here[rank] = arrivals[rank].withdrawn == 0;
          receive(open[rank], rank, arrival_tag(kind_), sizeof(Arrival));
        }
      }
      return std::all_of(here.begin(), here.end(), [](bool came) { return came; });
    };
    const bool healthy = waiter_.until([&] { return all_here() || deadline_.passed(); });
    for (size_t rank = 1; rank < n_; ++rank) settle(open[rank]);
    if (!healthy) return failed();
    return tell(arrivals, here);
  }

  RollCallResult follow() {
    Arrival arrival{static_cast<uint64_t>(pycomms::now_ns()), 0, mine_};
    Tracked verdict;
    receive(verdict, 0, verdict_tag(kind_), verdict_bytes());
    send(0, arrival_tag(kind_), &arrival, sizeof(arrival));
    // Rank 0 speaks at its deadline, which is a little later than ours if it came later.
    const int64_t grace = std::min(deadline_.left() / 10, 500 * pycomms::kMillisecond);
    const int64_t until = deadline_.ns() + grace;
    auto answered = [&] {
      if (!verdict.has_come.load(std::memory_order_acquire)) return false;
      if (verdict.result != nccl_abi::kSuccess || nonce_of(verdict) == arrival.nonce) return true;
      receive(verdict, 0, verdict_tag(kind_), verdict_bytes());  // an answer to an earlier call that was given up
      return false;
    };
    const bool healthy = waiter_.until([&] { return answered() || pycomms::now_ns() >= until; });
    if (!healthy) {
      settle(verdict);
      return failed();
    }
    // The answer may be there already: who was stopped until after the deadline has not looked.
    if (!answered()) {
      const int64_t last_look = pycomms::now_ns() + kLastLook;
      waiter_.until([&] { return answered() || pycomms::now_ns() >= last_look; });
    }
    if (!answered()) {
      settle(verdict);
      arrival.withdrawn = 1;
      send(0, arrival_tag(kind_), &arrival, sizeof(arrival));
      return {nccl_abi::kTimeout, {0}, {}};
    }
    return verdict.result == nccl_abi::kSuccess ? read(verdict) : failed();
  }

 private:
  // A verdict: the follower's nonce, one byte per rank (came or not), all reports.
  size_t verdict_bytes() const { return sizeof(uint64_t) + n_ + n_ * kReportBytes; }

  static uint64_t nonce_of(const Tracked& verdict) {
    uint64_t nonce;
    std::memcpy(&nonce, verdict.data.data(), sizeof(nonce));
    return nonce;
  }

  RollCallResult tell(const std::vector<Arrival>& arrivals, const std::vector<bool>& here) {
    std::vector<std::byte> verdict(verdict_bytes());
    for (size_t rank = 0; rank < n_; ++rank) {
      verdict[sizeof(uint64_t) + rank] = static_cast<std::byte>(here[rank]);
      std::memcpy(verdict.data() + sizeof(uint64_t) + n_ + rank * kReportBytes, &arrivals[rank].report, kReportBytes);
    }
    for (size_t rank = 1; rank < n_; ++rank) {
      if (!here[rank]) continue;
      std::memcpy(verdict.data(), &arrivals[rank].nonce, sizeof(uint64_t));
      send(rank, verdict_tag(kind_), verdict.data(), verdict.size());
    }
    return read_parts(verdict.data());
  }

  RollCallResult read(const Tracked& verdict) const { return read_parts(verdict.data.data()); }

  RollCallResult read_parts(const std::byte* verdict) const {
    RollCallResult result{nccl_abi::kSuccess, {}, std::vector<Report>(n_)};
    for (size_t rank = 0; rank < n_; ++rank) {
      if (verdict[sizeof(uint64_t) + rank] == std::byte{0}) result.missing.push_back(static_cast<int>(rank));
      std::memcpy(&result.reports[rank], verdict + sizeof(uint64_t) + n_ + rank * kReportBytes, kReportBytes);
    }
    if (!result.missing.empty()) result.result = nccl_abi::kTimeout;
    return result;
  }

  RollCallResult failed() const { return {result_of(segment_.failure().kind), {}, {}}; }

  void receive(Tracked& into, size_t peer, int tag, size_t bytes) {
    into.data.resize(bytes);
    into.has_come.store(false, std::memory_order_relaxed);
    into.id = p2p_.post({.data = into.data.data(),
                         .bytes = bytes,
                         .peer = static_cast<int>(peer),
                         .tag = tag,
                         .done = P2pEnding::come,
                         .arg = static_cast<P2pEnding*>(&into)});
  }

  // Small messages leave at once; a large verdict needs its receiver, who waits for it.
  void send(size_t peer, int tag, const void* data, size_t bytes) {
    auto* message = new Tracked();
    message->data.assign(static_cast<const std::byte*>(data), static_cast<const std::byte*>(data) + bytes);
    p2p_.post({.is_send = true,
               .data = message->data.data(),
               .bytes = bytes,
               .peer = static_cast<int>(peer),
               .tag = tag,
               .done = [](void* arg, Result) { delete static_cast<Tracked*>(arg); },
               .arg = message});
  }

  // Makes sure that nothing refers to `request` any more. One that cannot be cancelled is being delivered right now.
  void settle(Tracked& request) {
    auto done = [&] { return request.has_come.load(std::memory_order_acquire); };
    if (p2p_.cancel(request.id) || waiter_.until(done)) return;
    while (!done()) p2p_.progress();  // the communicator has failed: this ends it
  }

  const Segment& segment_;
  P2p& p2p_;
  const RollCallKind kind_;
  const Report mine_;
  const pycomms::Deadline deadline_;
  P2pWaiting waiting_;
  Waiter waiter_;
  const size_t n_;
};

}  // namespace

RollCallResult roll_call(const Segment& segment, const PeerWatch& watch, P2p& p2p, RollCallKind kind,
                         const Report& mine, int64_t timeout_ns) {
  RollCall call(segment, watch, p2p, kind, mine, timeout_ns);
  return segment.rank() == 0 ? call.lead() : call.follow();
}

}  // namespace hostccl

// Point to point: every (source, destination) pair has a channel in the segment. A send puts an envelope into it, with the
// data when that is small. Larger data flows through the pair's bulk ring: at once up to a limit, beyond it when the receiver
// has cleared it. Envelopes match receives by (source, tag), in order; small data that nobody has asked for yet is kept on
// the heap, larger data stays in the ring until it stands in the way of data that was asked for.
// Requests are independent: none waits for another one's turn, and nothing here blocks.
//
// Threads: any; one at a time moves things on (mutex_), the others go about their business. Completions are called with
// no lock held. Must not know: collectives, streams.
#pragma once

#include <atomic>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "hostccl/hostccl.h"
#include "hostccl/segment.h"
#include "hostccl/wait.h"

namespace hostccl {

struct P2pRequest {
  bool is_send = false;
  std::byte* data = nullptr;
  size_t bytes = 0;
  DataType type = nccl_abi::kUint8;
  int peer = 0;  // kAnySource for a receive from whoever comes first
  int tag = 0;
  CompletionFn done = nullptr;
  void* arg = nullptr;
  RecvStatus* status = nullptr;
  int64_t timeout_ns = pycomms::kForever;
};

// Where a completion leaves how its request has ended, for whoever waits for that.
struct P2pEnding {
  std::atomic<bool> has_come{false};
  Result result = nccl_abi::kInProgress;

  // A CompletionFn; arg: the ending.
  static void come(void* arg, Result result) {
    auto* const ending = static_cast<P2pEnding*>(arg);
    ending->result = result;
    ending->has_come.store(true, std::memory_order_release);
  }
};

// How a point-to-point operation is named in an error.
struct OperationName {
  const char* op;
  std::string label;  // "recv from rank 2 tag 7 float32[4]"
  int peer;           // -1: any
};

class P2p {
 public:
  P2p(const Segment& segment, const Patience& patience);
  ~P2p();

  // Takes the request up and moves it as far as it goes; `done` may have been called when this returns. Returns its id.
  uint64_t post(const P2pRequest& request);
  // Drops a receive that has met no message yet; its completion is called with kTimeout. False: it has.
  bool cancel(uint64_t id);
  // Ends all that is pending, without harm to the peers.
  void close(Result result);

  bool has_pending() const { return pending_.load(std::memory_order_acquire) != 0; }
  bool progress_if_pending() { return has_pending() && progress(); }
  // True when anything moved. Ends everything once the communicator has failed.
  bool progress();
  // Counts calls of progress(): tells a background thread whether somebody else is at it.
  uint64_t progress_calls() const { return progress_calls_.load(std::memory_order_relaxed); }

  // Fails the communicator if a request is overdue.
  void check_deadlines(int64_t now);
  // Whether a pending request still lacks something of this peer, after all that is there has been taken.
  bool needs(int peer);
  OperationName name(const P2pRequest& request) const;
  // Of the oldest pending request.
  OperationName name_of_oldest();

 private:
  struct Pending;
  struct Unexpected;
  struct Channel;
  class Receives;
  struct Finished {
    CompletionFn done;
    void* arg;
    Result result;
  };
  using Queue = std::list<Pending>;
  static constexpr int64_t kNoDeadline = std::numeric_limits<int64_t>::max();

  // All GUARDED_BY(mutex_). True: something moved.
  bool advance(std::vector<Finished>& finished);
  bool flush_outbox(Channel& channel, std::vector<Finished>& finished);
  bool take_envelopes(Channel& channel, std::vector<Finished>& finished);
  bool send_bulk(Channel& channel, std::vector<Finished>& finished);
  bool receive_bulk(Channel& channel, std::vector<Finished>& finished);
  static EnvelopeKind kind_of(const Pending& pending);
  static bool set_aside(Channel& channel, uint64_t id);
  bool can_take(Channel& channel, const Envelope& envelope);
  void take_envelope(Channel& channel, const Envelope& envelope, std::vector<Finished>& finished);
  void start_bulk(Channel& channel, uint64_t id);
  bool match_unexpected(Queue& request, std::vector<Finished>& finished);
  void deliver(Channel& channel, Queue& request, const Unexpected& message, std::vector<Finished>& finished);
  bool check_fit(int source, const P2pRequest& receive, const Unexpected& message);
  static void finish(const Pending& pending, Result result, std::vector<Finished>& finished);
  void end_all(Result result, std::vector<Finished>& finished);
  void fail_if_overdue(int64_t now);
  template <typename Visit>
  void for_each_queue(Visit visit);

  void call(const std::vector<Finished>& finished);
  bool all_others_closed() const;

  const Segment& segment_;
  std::atomic<size_t> pending_{0};
  std::atomic<uint64_t> progress_calls_{0};

  std::mutex mutex_;
  uint64_t next_id_ = 1;                            // GUARDED_BY(mutex_)
  int64_t first_deadline_ns_ = kNoDeadline;         // GUARDED_BY(mutex_): nothing is overdue before
  std::vector<std::unique_ptr<Channel>> channels_;  // GUARDED_BY(mutex_), by peer
  std::unique_ptr<Receives> receives_;              // GUARDED_BY(mutex_)
};

}  // namespace hostccl

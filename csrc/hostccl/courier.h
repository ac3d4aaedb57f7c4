// Carries what this rank writes in its host's segment to the hosts that do not map it, and puts what comes from there in the
// places where its writer would have put it. Nothing is copied on the way out: connections send from the rings, whose
// bytes stay until the reader has told that it took them. What has not been sent is known from positions alone, so a slow
// connection queues nothing here.
//
// What is for all ranks of a host (headers, the ring that all read) goes to one of them, the writer's port there. What is
// for one rank (the rings of a pair, envelopes) goes to that rank.
//
// Threads: any; each peer's shipments are in order (Outgoing::mutex). One thread of its own, which receives while nobody
// waits. Must not know: operations, what the bytes mean.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "hostccl/courier_wire.h"
#include "hostccl/net/mesh.h"
#include "hostccl/remote.h"
#include "hostccl/segment.h"

namespace hostccl {

class Courier final : public Remote, private net::Sink {
 public:
  // Both must outlive it. connections: of this communicator, by rank.
  explicit Courier(Segment& segment);
  ~Courier() override;

  // Begins: the connections are there. Tells all hosts that this rank is present.
  pycomms::Status start(std::unique_ptr<net::Mesh> connections);
  net::Sink& sink() { return *this; }

  void published(int peer) override;
  void failed() override;
  bool hand_over(int peer, uint64_t position, std::span<const std::byte> bytes) override;
  uint64_t handed_over(int peer) const override;
  void let_go() override;
  bool progress() override;
  std::string why_gone(int peer) const override;

  // This rank has closed its communicator: sends what is left, receives what its neighbours on this host still need, at most
  // until the deadline, and takes its leave.
  void close(pycomms::Deadline deadline);

 private:
  struct Outgoing;
  struct Incoming;

  // --- out (courier_out.cpp)
  void ship_pair(int peer);
  void ship_for_all(int port);
  void ship_to_all_hosts();
  bool ship_ring(int peer, CourierKind kind, const std::byte* ring, size_t size, uint64_t head, uint64_t& shipped);
  bool has_left(int peer) const;
  int herald_on(int host) const;
  void ship_news(int peer, Outgoing& out, Presence presence);
  void ship_headers(int port, Outgoing& out);
  void ship_envelopes(int peer, Outgoing& out, uint64_t end);
  void ship_tails(int peer);
  void ship_tails(int peer, Outgoing& out);
  bool send(int peer, net::Lane lane, const net::Message& message, const net::Payload& payload,
            net::Push push = net::Push::kNow);
  uint64_t taken_here_of(int writer) const;

  // --- in (courier_in.cpp)
  net::Place place(int peer, const net::Message& message) override;
  void delivered(int peer, const net::Message& message, std::span<const std::byte> payload) override;
  void ended(int peer, const net::LinkEnd& end) override;
  struct RingView;
  RingView ring_of(int writer, CourierKind kind) const;
  bool is_port_of(int writer) const;
  bool is_next_header(int peer, uint64_t sequence) const;
  net::Place place_flat(int peer, const net::Message& message);
  net::Place place_in_ring(int peer, const net::Message& message);
  std::string take(int peer, const net::Message& message, std::span<const std::byte> payload);
  std::string take_state(int peer, const StateWire& state);
  std::string take_tails(int peer, const TailsWire& tails);
  std::string take_header(int peer, uint64_t sequence, std::span<const std::byte> payload);
  void take_envelopes(int peer, std::span<const std::byte> payload);
  void mark_gone(const std::vector<int>& ranks, const std::string& why);
  bool is_silent(int peer) const;

  void main();
  bool look();
  void beat();

  // --- leaving (courier.cpp)
  bool has_sent_all();
  bool has_all_for_neighbours() const;
  void take_leave_of_pairs(pycomms::Deadline deadline);
  template <typename Done>
  void look_until(pycomms::Deadline deadline, Done done);

  Segment& segment_;
  const Places& places_;
  const int rank_;
  std::vector<std::unique_ptr<Outgoing>> out_;  // by peer; null for ranks on this host
  std::vector<std::unique_ptr<Incoming>> in_;   // likewise; each touched by one call of the sink at a time
  std::vector<int> elsewhere_;                  // ranks on other hosts
  std::vector<int> ports_;                      // this rank's, one on each other host
  std::vector<int> served_;                     // ranks on other hosts whose port this rank is

  std::unique_ptr<net::Mesh> mesh_;
  std::atomic<uint64_t> looks_{0};           // calls of progress(): tells the thread whether somebody else is at it
  std::atomic<bool> stop_{false};            // of the thread
  std::atomic<bool> may_say_closed_{false};  // what is for one rank alone has come there
  std::atomic<bool> is_leaving_{false};      // whose link ends from here on is no news
  std::thread thread_;

  mutable std::mutex gone_mutex_;
  std::vector<std::string> why_gone_;  // GUARDED_BY(gone_mutex_), by rank
};

}  // namespace hostccl

// Ranks of several hosts in one process, each with its courier over loopback: a segment for each host, and for each rank what a
// communicator has of it. Must not know: what is tested.
#pragma once

#include <memory>
#include <vector>

#include "hostccl/courier.h"
#include "hostccl/lane.h"
#include "hostccl/p2p.h"
#include "net_world.h"

namespace courier_test {

using namespace hostccl;
using net_test::kPatience;
using net_test::must;
using pycomms::Deadline;

inline const net::Bytes16 kKey = net_test::bytes16(100);

struct Member {
  std::unique_ptr<Segment> segment;
  std::unique_ptr<Courier> courier;
  net::Mesh* mesh = nullptr;  // the courier's
  std::unique_ptr<PeerWatch> watch;
  std::unique_ptr<P2p> p2p;
  std::unique_ptr<Lane> lane;

  int rank() const { return segment->rank(); }
  bool sees_all() const {
    for (int rank = 0; rank < segment->nranks(); ++rank) {
      if (segment->block(rank).presence.load() == Presence::kAbsent) return false;
    }
    return true;
  }
  // As a communicator closes.
  void close(int64_t patience = kPatience) {
    p2p->close(nccl_abi::kRemoteError);
    segment->mine().presence.store(Presence::kClosed);
    segment->ring_all();
    courier->close(Deadline::after(patience));
  }
};

class World {
 public:
  // host_of: by rank. absent: a rank that the test plays itself, with join_as().
  explicit World(const std::vector<int>& host_of, int absent = -1, const net::SocketOptions& socket = {})
      : host_of_(host_of) {
    const int nranks = static_cast<int>(host_of.size());
    const size_t bytes = Layout(nranks).total_bytes();
    const int nhosts = *std::max_element(host_of.begin(), host_of.end()) + 1;
    for (int host = 0; host < nhosts; ++host) {
      const pycomms::Fd memory = must(pycomms::create_shared_memory("pycomms-test", bytes));
      hosts_.push_back(must(pycomms::SharedMapping::map(memory)));
    }
    for (int rank = 0; rank < nranks; ++rank) {
      endpoints_.push_back(net_test::start_endpoint(4, {}, socket));
      addresses_.push_back(endpoints_.back()->address());
    }
    for (int rank = 0; rank < nranks; ++rank) {
      members_.push_back(rank == absent ? nullptr : make_member(rank));
    }
    for (const auto& member : members_) {
      if (member == nullptr) continue;
      member->segment->mine().pid.store(getpid());
      member->segment->mine().cores.store(1);
      member->segment->mine().presence.store(Presence::kPresent);
      member->segment->ring_all();
    }
  }

  Member& operator[](int rank) { return *members_[static_cast<size_t>(rank)]; }
  std::vector<std::unique_ptr<Member>>& members() { return members_; }
  bool is_complete() {
    return net_test::eventually([&] {
      return std::all_of(members_.begin(), members_.end(), [](const auto& m) { return m == nullptr || m->sees_all(); });
    });
  }
  // The connections of the absent rank, and who listens for what they bring.
  std::unique_ptr<net::Mesh> join_as(int rank, net::Sink& sink) {
    return must(net::Mesh::make(endpoints_[static_cast<size_t>(rank)], options(rank), sink));
  }

 private:
  net::MeshOptions options(int rank) const { return {net_test::bytes16(1), kKey, rank, addresses_, kPatience}; }

  std::unique_ptr<Member> make_member(int rank) {
    auto member = std::make_unique<Member>();
    member->segment = std::make_unique<Segment>(hosts_[static_cast<size_t>(host_of_[static_cast<size_t>(rank)])],
                                                Places(host_of_, rank), rank);
    member->courier = std::make_unique<Courier>(*member->segment);
    member->segment->set_remote(member->courier.get());
    auto mesh = join_as(rank, member->courier->sink());
    member->mesh = mesh.get();
    must(member->courier->start(std::move(mesh)));
    member->watch = std::make_unique<PeerWatch>(*member->segment);
    const Patience patience{false, 1, pycomms::kMillisecond};
    member->p2p = std::make_unique<P2p>(*member->segment, patience);
    member->lane = std::make_unique<Lane>(*member->segment, *member->watch, *member->p2p, patience, true);
    return member;
  }

  const std::vector<int> host_of_;
  std::vector<std::shared_ptr<pycomms::SharedMapping>> hosts_;
  std::vector<std::shared_ptr<net::Endpoint>> endpoints_;
  std::vector<net::Address> addresses_;
  std::vector<std::unique_ptr<Member>> members_;
};

// A request whose end can be looked at.
struct Pending {
  std::atomic<bool> done{false};
  nccl_abi::Result result = nccl_abi::kInProgress;

  static void finished(void* arg, nccl_abi::Result result) {
    auto* self = static_cast<Pending*>(arg);
    self->result = result;
    self->done.store(true, std::memory_order_release);
  }
  P2pRequest request(bool is_send, std::span<std::byte> data, int peer, int tag = 0) {
    P2pRequest made;
    made.is_send = is_send;
    made.data = data.data();
    made.bytes = data.size();
    made.peer = peer;
    made.tag = tag;
    made.done = finished;
    made.arg = this;
    return made;
  }
};

}  // namespace courier_test

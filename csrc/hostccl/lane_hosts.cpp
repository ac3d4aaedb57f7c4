// Lane, a large all_reduce where several hosts have several ranks each: the ranks of a host reduce among themselves, ranks
// with the same share exchange between the hosts, and the ranks of a host tell each other the result. So every byte crosses
// the network once in each direction. All three are one pipeline of flows.
//
// Every host has as many owners as the smallest one has ranks; with the i-th owner of every other host, the i-th reduces
// share i. Two of them exchange their shares whole; more divide the share into parts once more.

#include <algorithm>
#include <deque>

#include "hostccl/lane.h"
#include "hostccl/shares.h"
#include "hostccl/turn.h"

namespace hostccl {
namespace {

// A piece of a share, and who makes its result on this rank.
struct Piece {
  Share where;
  const Flow* maker;
};

}  // namespace

// The flows of one rank, in the order in which they are stepped.
class Lane::ByHosts {
 public:
  ByHosts(Lane& lane, const Collective& op)
      : lane_(lane), places_(lane.segment_.places()), op_(op), size_(op.element_bytes()) {
    const std::vector<int>& here = places_.ranks_here();
    mine_ = static_cast<int>(std::find(here.begin(), here.end(), lane.rank_) - here.begin());
    owners_ = places_.least_on_a_host();
    how_ = lane.symmetric(op.send.count * size_);
    last_out_.resize(static_cast<size_t>(lane.nranks_));
  }

  bool run(Turn& turn) {
    send_inputs();
    if (mine_ < owners_) reduce_share();
    receive_results();
    return run_flows(lane_.segment_, turn.waiter, flows_);
  }

 private:
  bool is_alone() const { return places_.ranks_here().size() == 1; }
  Share share(int owner) const { return share_of(owner, owners_, op_.send.count, size_); }
  // As the host numbered `host` makes it: all of it when there are two, and both make it.
  Share part(const Share& share, int host) const {
    if (places_.nhosts() == 2) return share;
    const Share inner = share_of(host, places_.nhosts(), share.count, size_);
    return {share.begin + inner.begin, inner.count};
  }
  int nparts() const { return places_.nhosts() == 2 ? 1 : places_.nhosts(); }
  size_t beyond(const Share& all, const Share& part) const {
    return (all.begin + all.count - part.begin - part.count) * size_;
  }
  const std::byte* own(const Share& where) const {
    return (is_alone() ? op_.input() : op_.output()) + where.begin * size_;
  }
  std::byte* to(const Share& where) const { return op_.output() + where.begin * size_; }

  SendFlow& send(int peer, const std::byte* from, const Share& where) {
    const auto p = static_cast<size_t>(peer);
    SendFlow& flow = out_.emplace_back(lane_.segment_, lane_.pair_out_[p], std::span(&lane_.just_[p], 1), from,
                                       where.count * size_, how_);
    if (!lane_.segment_.is_here(peer)) flow.hand_over();
    if (last_out_[p] != nullptr) flow.after(*last_out_[p]);
    last_out_[p] = &flow;
    flows_.push_back(&flow);
    return flow;
  }
  RecvFlow& receive(int peer, const Share& where, const Flow* before) {
    RecvFlow& flow = in_.emplace_back(lane_.segment_, lane_.pair_in_[static_cast<size_t>(peer)], peer, to(where),
                                      where.count * size_, how_);
    if (before != nullptr) flow.after(*before);
    flows_.push_back(&flow);
    return flow;
  }
  // Of this rank's own and what comes from `peers`, in their order. divisor: of what comes from hosts; 0: it comes from ranks.
  ReduceFlow& reduce(const std::vector<int>& peers, const std::byte* own, const Share& where, Reduction reduction,
                     int divisor) {
    std::vector<ReduceFlow::Input>& inputs = inputs_.emplace_back();
    std::vector<double>& factors = factors_.emplace_back();
    for (const int peer : peers) {
      inputs.push_back({peer == lane_.rank_ ? nullptr : &lane_.pair_in_[static_cast<size_t>(peer)], peer});
      const bool was_multiplied = divisor != 0 && places_.ranks_on(places_.host_of(peer)).size() > 1;
      factors.push_back(was_multiplied ? 1.0 : lane_.factors_[static_cast<size_t>(peer)]);
    }
    ReduceFlow& flow = sums_.emplace_back(
        lane_.segment_, inputs, own, to(where), where.count * size_, ReduceFlow::Output{nullptr, {}},
        ReduceArgs{.type = op_.type, .reduction = reduction, .factors = factors.data(), .divisor = divisor}, how_);
    flows_.push_back(&flow);
    return flow;
  }

  // To the owners of this host: their shares of this rank's data.
  void send_inputs() {
    for (int owner = 0; owner < owners_; ++owner) {
      const int peer = places_.ranks_here()[static_cast<size_t>(owner)];
      const Share theirs = share(owner);
      if (peer != lane_.rank_) send(peer, op_.input() + theirs.begin * size_, theirs);
    }
  }

  void reduce_share() {
    const Share all = share(mine_);
    if (!is_alone()) host_sum_ = &reduce(places_.ranks_here(), op_.input() + all.begin * size_, all, inner(), 0);
    std::vector<int> partners;
    for (int host = 0; host < places_.nhosts(); ++host) {
      partners.push_back(places_.ranks_on(host)[static_cast<size_t>(mine_)]);
    }
    std::vector<Piece> made = places_.nhosts() == 2 ? exchange(all, partners) : divide(all, partners);
    for (const int peer : places_.ranks_here()) {
      if (peer == lane_.rank_) continue;
      for (const Piece& part : made) send(peer, to(part.where), part.where).follow(*part.maker);
    }
  }

  // With the one partner: each sends all and reduces all.
  std::vector<Piece> exchange(const Share& all, const std::vector<int>& partners) {
    SendFlow& out = send(partners[static_cast<size_t>(1 - places_.my_host())], own(all), all);
    if (host_sum_ != nullptr) out.follow(*host_sum_);
    ReduceFlow& sum = reduce(partners, own(all), all, op_.reduction, lane_.nranks_);
    sum.follow(out);  // what it overwrites has been sent
    return {{all, &sum}};
  }

  // Each reduces a part and sends the result to the others.
  std::vector<Piece> divide(const Share& all, const std::vector<int>& partners) {
    const Share mine = part(all, places_.my_host());
    for (int host = 0; host < places_.nhosts(); ++host) {
      if (host == places_.my_host()) continue;
      const Share theirs = part(all, host);
      SendFlow& out = send(partners[static_cast<size_t>(host)], own(theirs), theirs);
      if (host_sum_ != nullptr) out.follow(*host_sum_, beyond(all, theirs));
    }
    ReduceFlow& sum = reduce(partners, own(mine), mine, op_.reduction, lane_.nranks_);
    if (host_sum_ != nullptr) sum.follow(*host_sum_, beyond(all, mine));
    std::vector<Piece> made;
    for (int host = 0; host < places_.nhosts(); ++host) {
      const int partner = partners[static_cast<size_t>(host)];
      if (host == places_.my_host()) {
        made.push_back({mine, &sum});
        continue;
      }
      send(partner, to(mine), mine).follow(sum);
      made.push_back({part(all, host), &receive(partner, part(all, host), &sum)});
    }
    return made;
  }

  // From the owners of this host: the results of their shares.
  void receive_results() {
    for (int owner = 0; owner < owners_; ++owner) {
      const int peer = places_.ranks_here()[static_cast<size_t>(owner)];
      if (peer == lane_.rank_) continue;
      const Flow* before = host_sum_;  // it reads the same ring
      for (int i = 0; i < nparts(); ++i) before = &receive(peer, part(share(owner), i), before);
    }
  }

  // What the ranks of a host compute.
  Reduction inner() const { return op_.reduction == Reduction::kAvg ? Reduction::kSum : op_.reduction; }

  Lane& lane_;
  const Places& places_;
  const Collective& op_;
  const size_t size_;
  int mine_;    // this rank's place among those of its host
  int owners_;  // on every host
  FlowStyle how_;
  const Flow* host_sum_ = nullptr;     // of this host's ranks; none when there is one
  std::vector<const Flow*> last_out_;  // on the ring to each peer

  std::deque<SendFlow> out_;
  std::deque<RecvFlow> in_;
  std::deque<ReduceFlow> sums_;
  std::deque<std::vector<ReduceFlow::Input>> inputs_;
  std::deque<std::vector<double>> factors_;
  std::vector<Flow*> flows_;
};

bool Lane::all_reduce_by_hosts(Turn& turn, const Collective& op) { return ByHosts(*this, op).run(turn); }

}  // namespace hostccl

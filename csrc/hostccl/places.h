// Which rank of a communicator is on which host. Hosts are numbered in the order of their first ranks; the same on every
// rank. Constant once made. Must not know: sockets, shared memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace hostccl {

class Places {
 public:
  // All on one host.
  explicit Places(int nranks) : Places(std::vector<int>(static_cast<size_t>(nranks), 0), 0) {}
  // host_of: by rank.
  Places(std::vector<int> host_of, int rank) : host_of_(std::move(host_of)), rank_(rank) {
    ranks_on_.resize(static_cast<size_t>(*std::max_element(host_of_.begin(), host_of_.end())) + 1);
    for (size_t r = 0; r < host_of_.size(); ++r) {
      std::vector<int>& neighbours = ranks_on_[static_cast<size_t>(host_of_[r])];
      port_index_.push_back(neighbours.size() + static_cast<size_t>(host_of_[r]));
      neighbours.push_back(static_cast<int>(r));
    }
  }

  int nranks() const { return static_cast<int>(host_of_.size()); }
  int nhosts() const { return static_cast<int>(ranks_on_.size()); }
  bool is_one_host() const { return ranks_on_.size() == 1; }
  int host_of(int rank) const { return host_of_[static_cast<size_t>(rank)]; }
  int my_host() const { return host_of(rank_); }
  bool is_here(int rank) const { return host_of(rank) == my_host(); }
  // In ascending order.
  const std::vector<int>& ranks_on(int host) const { return ranks_on_[static_cast<size_t>(host)]; }
  const std::vector<int>& ranks_here() const { return ranks_on(my_host()); }

  // How many ranks every host has at least.
  int least_on_a_host() const {
    size_t least = ranks_on_.front().size();
    for (const std::vector<int>& ranks : ranks_on_) least = std::min(least, ranks.size());
    return static_cast<int>(least);
  }

  // The rank that receives on `host` what `writer`, on another one, writes for all ranks there. Each host's writers are
  // spread over the ranks of the host, however ranks are dealt out to hosts.
  int port_of(int writer, int host) const {
    const std::vector<int>& there = ranks_on(host);
    return there[port_index_[static_cast<size_t>(writer)] % there.size()];
  }

 private:
  std::vector<int> host_of_;
  std::vector<std::vector<int>> ranks_on_;
  // By rank: its place among the ranks of its host, and another beginning for each host.
  std::vector<size_t> port_index_;
  int rank_;
};

}  // namespace hostccl

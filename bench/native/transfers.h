// How two processes can combine or move data: the best known ways on one host, with nothing else around them.
//   exchange         post chunks into my ring, take the peer's out of theirs (copy, or add)
//   staged_sum       all_reduce of private buffers: each reduces half and hands it back
//   letter_sum       all_reduce of a few numbers that share a cache line with their flag
//   direct_sum       all_reduce where both buffers lie in shared memory
// Both ranks call the same function with the same Ring. Slots rotate on from call to call and never restart at slot 0:
// rewriting the same few lines would fetch them back from the peer's cache every time.
#pragma once

#include "kernels.h"
#include "pair.h"

namespace bench {

struct Ring {
  size_t chunk, bytes;
  Store store;

  size_t slots() const { return bytes / chunk; }
  size_t floats() const { return chunk / sizeof(float); }
  float* slot(char* ring, uint64_t count) const { return reinterpret_cast<float*>(ring + count % slots() * chunk); }
};

enum class Take { kCopy, kAdd };

struct Outgoing {
  const float* data;
  size_t n;
};
struct Incoming {
  float* data;
  size_t n;
  Take how;
};

inline size_t piece(size_t n, size_t chunk, size_t at) { return std::min(chunk, n - at * chunk); }

// `out` and `in` may be the same memory: a chunk is posted before it is written.
inline void exchange(Pair& pair, const Ring& ring, Outgoing out, Incoming in) {
  Flags& f = pair.flags();
  const size_t c = ring.floats(), sends = (out.n + c - 1) / c, takes = (in.n + c - 1) / c;
  const uint64_t posted = pair.mine(f.posted).get(), consumed = pair.mine(f.consumed).get();
  for (size_t k = 0; k < sends || k < takes + 1; ++k) {
    if (k < sends) {
      if (posted + k >= ring.slots()) pair.theirs(f.consumed).wait_for(posted + k - ring.slots() + 1);
      copy(ring.slot(pair.ring(), posted + k), out.data + k * c, piece(out.n, c, k), ring.store);
      pair.mine(f.posted).set(posted + k + 1);
    }
    if (k >= 1 && k - 1 < takes) {
      const size_t j = k - 1, n = piece(in.n, c, j);
      pair.theirs(f.posted).wait_for(consumed + j + 1);
      const float* from = ring.slot(pair.peer_ring(), consumed + j);
      if (in.how == Take::kAdd)
        add(in.data + j * c, from, n);
      else
        copy(in.data + j * c, from, n);
      pair.mine(f.consumed).set(consumed + j + 1);
    }
  }
}

inline void staged_sum(Pair& pair, const Ring& ring, float* data, size_t n) {
  Flags& f = pair.flags();
  // Halves end on a cache line; the ranks' halves may differ by a line.
  const size_t first = (n / 2 + 15) / 16 * 16 > n ? n : (n / 2 + 15) / 16 * 16;
  const size_t my_n = pair.rank() == 0 ? first : n - first, their_n = n - my_n;
  float* mine = pair.rank() == 0 ? data : data + first;
  float* theirs = pair.rank() == 0 ? data + first : data;
  const size_t c = ring.floats(), mine_k = (my_n + c - 1) / c, theirs_k = (their_n + c - 1) / c;
  const uint64_t posted = pair.mine(f.posted).get(), consumed = pair.mine(f.consumed).get();
  const uint64_t results = pair.mine(f.results).get(), taken = pair.mine(f.taken).get();
  const size_t steps = std::max(mine_k, theirs_k) + 2;
  for (size_t k = 0; k < steps; ++k) {
    if (k < theirs_k) {
      if (posted + k >= ring.slots()) pair.theirs(f.consumed).wait_for(posted + k - ring.slots() + 1);
      copy(ring.slot(pair.ring(), posted + k), theirs + k * c, piece(their_n, c, k), ring.store);
      pair.mine(f.posted).set(posted + k + 1);
    }
    if (k >= 1 && k - 1 < mine_k) {
      const size_t j = k - 1;
      pair.theirs(f.posted).wait_for(consumed + j + 1);
      if (results + j >= ring.slots()) pair.theirs(f.taken).wait_for(results + j - ring.slots() + 1);
      add_to_both(mine + j * c, ring.slot(pair.peer_ring(), consumed + j), ring.slot(pair.result_ring(), results + j),
                  piece(my_n, c, j), ring.store);
      pair.mine(f.consumed).set(consumed + j + 1);
      pair.mine(f.results).set(results + j + 1);
    }
    if (k >= 2 && k - 2 < theirs_k) {
      const size_t j = k - 2;
      pair.theirs(f.results).wait_for(taken + j + 1);
      copy(theirs + j * c, ring.slot(pair.peer_result_ring(), taken + j), piece(their_n, c, j));
      pair.mine(f.taken).set(taken + j + 1);
    }
  }
}

inline void letter_sum(Pair& pair, uint64_t number, float* data, size_t n) {
  Letter& mine = pair.my_letter(number);
  const Letter& theirs = pair.peer_letter(number);
  std::memcpy(mine.data, data, n * sizeof(float));
  mine.number.store(number, std::memory_order_release);
  spin_until([&] { return theirs.number.load(std::memory_order_acquire) == number; });
  add(data, theirs.data, n);
}

// Each rank sums its half and stores it to both.
inline void direct_sum(Pair& pair, size_t n, Store store) {
  const size_t first = n / 2 / 16 * 16;
  const size_t at = pair.rank() == 0 ? 0 : first, count = pair.rank() == 0 ? first : n - first;
  pair.barrier();
  add_in_both(pair.shared() + at, pair.peer_shared() + at, count, store);
  pair.barrier();
}

// One cache line there and back.
inline void bounce_line(Pair& pair) {
  Flags& f = pair.flags();
  const uint64_t turn = pair.mine(f.ping).get() + 1;
  if (pair.rank() == 0) pair.mine(f.ping).set(turn);
  pair.theirs(f.ping).wait_for(turn);
  if (pair.rank() == 1) pair.mine(f.ping).set(turn);
}

// A message there and back, through the rings.
inline void bounce(Pair& pair, const Ring& ring, float* data, size_t n) {
  const Outgoing send{data, n}, no_send{data, 0};
  const Incoming take{data, n, Take::kCopy}, no_take{data, 0, Take::kCopy};
  exchange(pair, ring, pair.rank() == 0 ? send : no_send, pair.rank() == 0 ? no_take : take);
  exchange(pair, ring, pair.rank() == 0 ? no_send : send, pair.rank() == 0 ? take : no_take);
}

}  // namespace bench

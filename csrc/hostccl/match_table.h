// Entries that wait for their other half, by key; those of one key stay in the order in which they came.
// A hash table with lists as buckets, few while there is little in it: one or two entries are the rule, tens of thousands
// must not cost each other's time. Not synchronized. Must not know: what a key is made of.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <vector>

namespace hostccl {

// Entry has match_key() -> uint64_t, which does not change while it is in the table.
template <typename Entry>
class MatchTable {
 public:
  using List = std::list<Entry>;

  class Place {
   public:
    Place() = default;
    explicit operator bool() const { return bucket_ != nullptr; }
    Entry& operator*() const { return *at_; }
    Entry* operator->() const { return &*at_; }

   private:
    friend class MatchTable;
    Place(List& bucket, typename List::iterator at) : bucket_(at == bucket.end() ? nullptr : &bucket), at_(at) {}

    List* bucket_ = nullptr;
    typename List::iterator at_;
  };

  // Takes over the entry of a list of one.
  void add(List& one) {
    if (++size_ > kCrowded * buckets_.size()) spread_over(buckets_.size() * 2);
    List& bucket = bucket_of(one.front().match_key());
    bucket.splice(bucket.end(), one);
  }

  // The first one of this key.
  Place find(uint64_t key) {
    List& bucket = bucket_of(key);
    return {bucket, std::find_if(bucket.begin(), bucket.end(), [key](const Entry& e) { return e.match_key() == key; })};
  }

  // Looks at all of them.
  template <typename Predicate>
  Place find_if(Predicate predicate) {
    for (List& bucket : buckets_) {
      if (const Place place{bucket, std::find_if(bucket.begin(), bucket.end(), predicate)}) return place;
    }
    return {};
  }

  // Moves the entry to the end of `to`.
  void take(Place place, List& to) {
    to.splice(to.end(), *place.bucket_, place.at_);
    // Whoever looks at all of them must not look at empty buckets for the most part.
    if (--size_ * kCrowded < buckets_.size() && buckets_.size() > kFewest) spread_over(buckets_.size() / 2);
  }

  template <typename Visit>
  void for_each_list(Visit visit) {
    for (List& bucket : buckets_) visit(bucket);
  }
  void clear() { *this = MatchTable(); }

 private:
  static constexpr size_t kFewest = 8;  // buckets; always a power of two
  static constexpr size_t kCrowded = 4;

  List& bucket_of(uint64_t key) {
    constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
    return buckets_[(key * kGoldenRatio >> 32) & (buckets_.size() - 1)];
  }

  void spread_over(size_t count) {
    std::vector<List> old(count);
    old.swap(buckets_);
    for (List& from : old) {
      while (!from.empty()) {
        List& to = bucket_of(from.front().match_key());
        to.splice(to.end(), from, from.begin());
      }
    }
  }

  size_t size_ = 0;
  std::vector<List> buckets_{kFewest};
};

}  // namespace hostccl

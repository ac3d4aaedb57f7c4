// How the elements of a reduction are divided, and when the ranks of a host reduce among themselves first.

#include "check.h"
#include "hostccl/shares.h"

using namespace hostccl;

TEST(shares_follow_one_another_and_are_aligned) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{1000}, size_t{100'003}}) {
    for (const int owners : {1, 2, 3, 7}) {
      size_t end = 0;
      for (int owner = 0; owner < owners; ++owner) {
        const Share share = share_of(owner, owners, count, 4);
        CHECK_EQ(share.begin, end);
        CHECK(share.count == 0 || share.begin * 4 % kPad == 0);
        end = share.begin + share.count;
      }
      CHECK_EQ(end, count);
    }
  }
}

TEST(ranks_of_a_host_reduce_first_where_there_are_several_of_both) {
  Collective sum;
  sum.type = nccl_abi::kFloat32;
  const auto on = [](std::vector<int> hosts) { return Places(std::move(hosts), 0); };
  CHECK(goes_by_hosts(on({0, 0, 1, 1}), sum));
  CHECK(goes_by_hosts(on({0, 1, 0}), sum));
  CHECK(!goes_by_hosts(on({0, 0, 0, 0}), sum));
  CHECK(!goes_by_hosts(on({0, 1, 2}), sum));
  CHECK_EQ(on({0, 1, 0}).least_on_a_host(), 1);
  CHECK_EQ(on({0, 0, 1, 1}).least_on_a_host(), 2);
}

TEST(low_precision_is_rounded_once) {
  const Places places({0, 0, 1, 1}, 0);
  Collective op;
  for (const auto type : {nccl_abi::kFloat16, nccl_abi::kBfloat16, nccl_abi::kFloat8e4m3, nccl_abi::kFloat8e5m2}) {
    op.type = type;
    op.reduction = Reduction::kSum;
    CHECK(!goes_by_hosts(places, op));
    op.reduction = Reduction::kMax;
    CHECK(goes_by_hosts(places, op));
  }
}

CHECK_MAIN()

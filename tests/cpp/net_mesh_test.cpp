// The links of a communicator: made on first use, once for each pair; how they end.

#include <cstring>

#include "net_exchange.h"

using namespace net_test;

namespace {

using Nodes = std::vector<std::unique_ptr<Node>>;

void step(Nodes& nodes) {
  for (const auto& node : nodes) {
    if (node->mesh != nullptr) node->mesh->progress();
  }
}

}  // namespace

TEST(threads_exchange_with_everybody) {
  for (const int ranks : {2, 4}) {
    Nodes nodes = make_nodes(ranks);
    std::vector<std::thread> threads;
    std::vector<std::string> errors(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          exchange_all(*nodes[i], 20, 1000);
          exchange_all(*nodes[i], 2, 3 * kChunk + 5);
          nodes[i]->mesh->close("done", Deadline::after(kPatience));
        } catch (const std::exception& error) {
          errors[i] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < nodes.size(); ++i) {
      CHECK_STREQ(errors[i], "");
      CHECK_EQ(nodes[i]->sink.end_calls(), nodes.size() - 1);
      CHECK_EQ(nodes[i]->endpoint->rejections().count(Rejection::kWrongKey), uint64_t{0});
    }
  }
}

TEST(ipv6_carries_messages) {
  Nodes nodes = make_nodes(2, 6);
  must(nodes[0]->mesh->link_to(1).send(Lane::kNormal, message(1), {{}, bytes_of("over IPv6")}));
  CHECK(eventually([&] { return nodes[1]->sink.count() == 1; }, [&] { step(nodes); }));
  CHECK_STREQ(nodes[1]->sink.take().text(), "over IPv6");
  CHECK(nodes[1]->mesh->find_link(0)->name().find("rank 0 at [::1]:") == 0);
}

TEST(both_may_dial_at_once) {
  std::shared_ptr<Endpoint> endpoints[2] = {start_endpoint(), start_endpoint()};
  const std::vector<Address> addresses{endpoints[0]->address(), endpoints[1]->address()};
  std::atomic<int> arrived{0};
  std::atomic<bool> failed{false};
  const auto rank_main = [&](int rank) {
    for (int i = 0; i < 1000 && !failed; ++i) {
      Node node;
      node.endpoint = endpoints[rank];
      Bytes16 topic = bytes16(1);
      std::memcpy(topic.data(), &i, sizeof(i));
      node.mesh = must(Mesh::make(node.endpoint, {topic, bytes16(100), rank, addresses, kPatience}, node.sink));
      // Together, as nearly as may be; and now and then one after the other.
      ++arrived;
      const auto meet = [&](int count) { return eventually([&] { return failed || arrived >= count; }); };
      bool well = meet(4 * i + 2);
      if (i % 3 == rank) std::this_thread::yield();
      const std::string text = "from " + std::to_string(rank);
      well = well && node.mesh->link_to(1 - rank).send(Lane::kNormal, message(1), {{}, bytes_of(text)}).is_ok();
      well = well && eventually([&] { return failed || node.sink.count() == 1; }, [&] { node.mesh->progress(); });
      ++arrived;
      well = well && meet(4 * i + 4) && node.sink.count() == 1 && node.sink.end_calls() == 0;
      if (!well) {
        failed = true;
        std::fprintf(stderr, "round %d rank %d: %s\n", i, rank, node.sink.end_of(1 - rank).text.c_str());
      }
    }
  };
  std::thread other([&] { rank_main(1); });
  rank_main(0);
  other.join();
  CHECK(!failed);
}

TEST(the_lower_ranks_connection_is_kept) {
  Nodes nodes = make_nodes(2);
  must(nodes[0]->mesh->link_to(1).send(Lane::kNormal, message(1), {}));
  must(nodes[1]->mesh->link_to(0).send(Lane::kNormal, message(2), {}));
  CHECK(eventually([&] { return nodes[0]->sink.count() == 1 && nodes[1]->sink.count() == 1; }, [&] { step(nodes); }));
  // Rank 1 sees the port from which rank 0 has dialled, and not rank 0's address.
  CHECK(nodes[0]->mesh->find_link(1)->name() == "rank 1 at " + nodes[1]->endpoint->address().to_text());
  CHECK(nodes[1]->mesh->find_link(0)->name() != "rank 0 at " + nodes[0]->endpoint->address().to_text());
  CHECK_EQ(nodes[0]->sink.end_calls() + nodes[1]->sink.end_calls(), size_t{0});
}

TEST(a_rank_may_dial_before_the_other_has_joined) {
  Nodes nodes(2);
  std::vector<Address> addresses;
  for (auto& node : nodes) {
    node = std::make_unique<Node>();
    node->endpoint = start_endpoint();
    addresses.push_back(node->endpoint->address());
  }
  nodes[0]->join(0, addresses);
  must(nodes[0]->mesh->link_to(1).send(Lane::kNormal, message(1), {{}, bytes_of("early")}));
  const uint64_t before = pycomms::now_ns();
  CHECK(eventually([&] { return pycomms::now_ns() > static_cast<int64_t>(before) + 5 * pycomms::kMillisecond; },
                   [&] { step(nodes); }));
  nodes[1]->join(1, addresses);
  CHECK(eventually([&] { return nodes[1]->sink.count() == 1; }, [&] { step(nodes); }));
}

TEST(a_peer_that_is_not_there_is_unreachable) {
  Nodes nodes = make_nodes(3);
  nodes[1].reset();
  bool told = false;
  const Completion done{[](void* arg, bool sent) { *static_cast<bool*>(arg) = !sent; }, &told};
  // Over loopback the refusal comes so fast that the send may be told itself.
  told = !nodes[0]->mesh->link_to(1).send(Lane::kNormal, message(1), {}, done).is_ok();
  CHECK(eventually([&] { return nodes[0]->sink.has_ended(1); }, [&] { nodes[0]->mesh->progress(); }));
  CHECK(told);
  CHECK(nodes[0]->sink.end_of(1).kind == EndKind::kUnreachable);
  CHECK(nodes[0]->sink.end_of(1).text.find("there is no connection with rank 1: connecting to 127.0.0.1:") == 0);
  must(nodes[0]->mesh->link_to(2).send(Lane::kNormal, message(1), {}));
  CHECK(eventually([&] { return nodes[2]->sink.count() == 1; },
                   [&] {
                     nodes[0]->mesh->progress();
                     nodes[2]->mesh->progress();
                   }));
}

TEST(a_peer_that_never_joins_is_given_up_at_the_deadline) {
  Nodes nodes(2);
  for (auto& node : nodes) {
    node = std::make_unique<Node>();
    node->endpoint = start_endpoint();
  }
  const std::vector<Address> addresses{nodes[0]->endpoint->address(), nodes[1]->endpoint->address()};
  nodes[0]->join(0, addresses, 1, 30 * pycomms::kMillisecond);
  nodes[0]->mesh->link_to(1);
  CHECK(eventually([&] { return nodes[0]->sink.has_ended(1); }, [&] { nodes[0]->mesh->progress(); }));
  CHECK(nodes[0]->sink.end_of(1).text.find("no answer to our hello, until the deadline") != std::string::npos);
}

TEST(closing_is_orderly_on_the_other_side) {
  Nodes nodes = make_nodes(3);
  for (const int to : {1, 2}) must(nodes[0]->mesh->link_to(to).send(Lane::kNormal, message(1), {}));
  CHECK(eventually([&] { return nodes[1]->sink.count() == 1 && nodes[2]->sink.count() == 1; }, [&] { step(nodes); }));
  std::atomic<bool> stop{false};
  std::thread others([&] {
    while (!stop) {
      for (const size_t i : {size_t{1}, size_t{2}}) nodes[i]->mesh->progress();
      std::this_thread::yield();
    }
  });
  nodes[0]->mesh->close("the program has ended", Deadline::after(kPatience));
  stop = true;
  others.join();
  for (const size_t i : {size_t{1}, size_t{2}}) {
    CHECK(nodes[i]->sink.end_of(0).kind == EndKind::kOrderly);
    CHECK(nodes[i]->sink.end_of(0).text.find("the program has ended") != std::string::npos);
  }
  CHECK_EQ(nodes[0]->sink.end_calls(), size_t{2});
  // Nobody comes in any more: rank 1 has had its link, and what is new hears that the topic is closed.
  CHECK(!nodes[1]->mesh->link_to(0).send(Lane::kNormal, message(1), {}).is_ok());
}

TEST(closing_notices_an_end_that_another_thread_has_seen) {
  std::shared_ptr<Endpoint> endpoints[2] = {start_endpoint(), start_endpoint()};
  const std::vector<Address> addresses{endpoints[0]->address(), endpoints[1]->address()};
  for (int i = 0; i < 200; ++i) {
    Nodes nodes;
    for (int rank = 0; rank < 2; ++rank) {
      nodes.push_back(std::make_unique<Node>());
      nodes.back()->endpoint = endpoints[rank];
      nodes.back()->join(rank, addresses, static_cast<uint8_t>(i));
    }
    must(nodes[0]->mesh->link_to(1).send(Lane::kNormal, message(1), {}));
    CHECK(eventually([&] { return nodes[1]->sink.count() == 1; }, [&] { step(nodes); }));
    std::atomic<bool> stop{false};
    std::thread other([&] {
      while (!stop) step(nodes);
    });
    const int64_t start = pycomms::now_ns();
    nodes[0]->mesh->close("bye", Deadline::after(kPatience));
    const int64_t took = pycomms::now_ns() - start;
    stop = true;
    other.join();
    CHECK_LE(took, kPatience / 2);
  }
}

TEST(a_peer_that_takes_nothing_cannot_hold_up_closing) {
  Nodes nodes = make_nodes(2, 4, {4096, 4096, kPatience});
  const auto large = pattern(4 * kChunk, 1);
  int lost = 0;
  const Completion done{[](void* arg, bool sent) { *static_cast<int*>(arg) += !sent; }, &lost};
  must(nodes[0]->mesh->link_to(1).send(Lane::kBulk, message(1), {{}, large}, done));
  CHECK(eventually([&] { return nodes[0]->mesh->find_link(1)->is_connected(); }, [&] { nodes[0]->mesh->progress(); }));
  nodes[0]->mesh->close("bye", Deadline::after(30 * pycomms::kMillisecond));
  CHECK(nodes[0]->sink.has_ended(1));
  CHECK_EQ(lost, 1);
}

TEST(ring_wakes_all_who_wait) {
  Nodes nodes = make_nodes(2);
  std::atomic<int> woken{0};
  std::vector<std::thread> sleepers;
  for (int i = 0; i < 3; ++i) {
    sleepers.emplace_back([&] {
      nodes[0]->mesh->wait(Deadline::after(kPatience));
      ++woken;
    });
  }
  const int64_t start = pycomms::now_ns();
  nodes[0]->mesh->ring();
  // Those who were not there yet need a bell of their own.
  CHECK(eventually([&] { return woken == 3; }, [&] { nodes[0]->mesh->ring(); }, kPatience / 2));
  for (std::thread& sleeper : sleepers) sleeper.join();
  CHECK(pycomms::now_ns() - start < kPatience / 2);
}

TEST(whoever_sleeps_is_woken_by_a_message_and_by_room_to_send) {
  Nodes nodes = make_nodes(2, 4, {4096, 4096, kPatience});
  const auto large = pattern(2 * kChunk, 1);
  std::atomic<bool> sent{false}, stop{false};
  const Completion done{[](void* arg, bool) { *static_cast<std::atomic<bool>*>(arg) = true; }, &sent};
  const auto sleep_and_move = [&](Node& node) {
    while (!stop) {
      if (!node.mesh->progress()) node.mesh->wait(Deadline::after(kPatience));
    }
  };
  std::thread first([&] { sleep_and_move(*nodes[0]); }), second([&] { sleep_and_move(*nodes[1]); });
  must(nodes[0]->mesh->link_to(1).send(Lane::kNormal, message(1), {{}, large}, done));
  const bool came = eventually([&] { return sent && nodes[1]->sink.count() == 1; });
  stop = true;
  for (const auto& node : nodes) node->mesh->ring();
  first.join();
  second.join();
  CHECK(came);
  CHECK(nodes[1]->sink.take().payload == large);
}

TEST(whoever_knows_the_key_and_is_no_member_is_refused) {
  Nodes nodes = make_nodes(2);
  for (const int rank : {-7, 0, 2, 1'000'000}) {
    auto refused = dial_and_wait({bytes16(1), bytes16(100), rank, 0}, nodes[0]->endpoint->address(), 0, {},
                                 Deadline::after(kPatience));
    CHECK(refused.status().message().find("refused the connection") != std::string::npos);
  }
  must(nodes[0]->mesh->link_to(1).send(Lane::kNormal, message(1), {}));
  CHECK(eventually([&] { return nodes[1]->sink.count() == 1; }, [&] { step(nodes); }));
  auto twin =
      dial_and_wait({bytes16(1), bytes16(100), 1, 0}, nodes[0]->endpoint->address(), 0, {}, Deadline::after(kPatience));
  CHECK(twin.status().message().find("it has or had a connection with this rank already") != std::string::npos);
  CHECK_EQ(nodes[0]->sink.end_calls(), size_t{0});
}

TEST(a_rank_outside_its_mesh_is_refused) {
  Node node;
  node.endpoint = start_endpoint();
  for (const int rank : {-1, 2}) {
    const auto refused =
        Mesh::make(node.endpoint, {bytes16(1), bytes16(100), rank, std::vector<Address>(2)}, node.sink);
    CHECK_STREQ(refused.status().message(), "rank " + std::to_string(rank) + " of a mesh of 2 ranks");
  }
}

TEST(a_thousand_meshes_leave_nothing_behind) {
  std::shared_ptr<Endpoint> endpoints[2] = {start_endpoint(), start_endpoint()};
  const std::vector<Address> addresses{endpoints[0]->address(), endpoints[1]->address()};
  const auto settled = [&](size_t descriptors, size_t running) {
    return eventually([&] { return open_descriptors() == descriptors && threads() == running; });
  };
  const size_t descriptors = open_descriptors(), running = threads();
  for (int i = 0; i < 1000; ++i) {
    Nodes nodes;
    for (int rank = 0; rank < 2; ++rank) {
      nodes.push_back(std::make_unique<Node>());
      nodes.back()->endpoint = endpoints[rank];
      nodes.back()->join(rank, addresses, static_cast<uint8_t>(i % 200));
    }
    must(nodes[0]->mesh->link_to(1).send(Lane::kNormal, message(1), {}));
    CHECK(eventually([&] { return nodes[1]->sink.count() == 1; }, [&] { step(nodes); }));
    if (i % 2 == 0) nodes[0]->mesh->abort("enough");
  }
  CHECK(settled(descriptors, running));
}

CHECK_MAIN()

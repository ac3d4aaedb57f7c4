// The links of a communicator whose ranks are processes: they exchange, one is killed, one has forked.

#include <sys/mman.h>
#include <sys/wait.h>

#include <csignal>
#include <new>

#include "net_exchange.h"

using namespace net_test;

namespace {

// In a process of its own; the exit status tells. What `body` throws is printed.
pid_t in_a_process(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(50);
  int status = 0;
  try {
    body();
  } catch (const check::Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.text.c_str());
    status = 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    status = 1;
  }
  _exit(status);
}

int wait_for(pid_t child) {
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  return status;
}

// Where ranks that are processes tell each other their addresses.
struct Board {
  std::atomic<int> posted{0};
  std::atomic<int> stage{0};
  std::array<Address::Encoded, 8> addresses;

  static Board* make() {
    void* memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (memory) Board;
  }
  void post(int rank, const Address& address) {
    addresses[static_cast<size_t>(rank)] = address.encode();
    ++posted;
  }
  std::vector<Address> all(int count) {
    CHECK(eventually([&] { return posted == count; }));
    std::vector<Address> out;
    for (int i = 0; i < count; ++i) out.push_back(must(Address::decode(addresses[static_cast<size_t>(i)])));
    return out;
  }
  void reach(int wanted) {
    CHECK(eventually([&] { return stage >= wanted; }));
  }
};

Node& join_as_process(Board& board, int rank, int count) {
  auto* node = new Node;  // a process that is killed has no time to clean up
  node->endpoint = start_endpoint();
  board.post(rank, node->endpoint->address());
  node->join(rank, board.all(count));
  return *node;
}

}  // namespace

TEST(processes_exchange_with_everybody) {
  for (const int ranks : {2, 4}) {
    Board* board = Board::make();
    std::vector<pid_t> children;
    for (int rank = 0; rank < ranks; ++rank) {
      children.push_back(in_a_process([&] {
        Node& node = join_as_process(*board, rank, ranks);
        exchange_all(node, 20, 1000);
        exchange_all(node, 2, 2 * kChunk + 5);
        node.mesh->close("done", Deadline::after(kPatience));
      }));
    }
    for (const pid_t child : children) CHECK_EQ(wait_for(child), 0);
    munmap(board, sizeof(Board));
  }
}

TEST(a_peer_killed_in_the_middle_of_a_message_is_lost) {
  Board* board = Board::make();
  const pid_t child = in_a_process([&] {
    Node& node = join_as_process(*board, 1, 2);
    static const auto large = pattern(64 << 20, 1);
    const Completion done{[](void*, bool) {}, nullptr};
    must(node.mesh->link_to(0).send(Lane::kBulk, message(1), {{}, large}, done));
    for (;;) node.mesh->progress();
  });
  Node& node = join_as_process(*board, 0, 2);
  std::atomic<bool> begun{false};
  std::vector<std::byte> memory(64 << 20);
  node.sink.on_place = [&](int, const Message&) {
    begun = true;
    return Place::at(memory.data());
  };
  CHECK(eventually([&] { return begun.load(); }, [&] { node.mesh->progress(); }));
  kill(child, SIGKILL);
  static_cast<void>(wait_for(child));
  CHECK(eventually([&] { return node.sink.has_ended(1); }, [&] { node.mesh->progress(); }));
  CHECK(node.sink.end_of(1).kind == EndKind::kLost);
  CHECK(node.sink.end_of(1).text.find("was lost, in the middle of a message") != std::string::npos);
  CHECK_EQ(node.sink.count(), size_t{0});
  node.mesh->close("", Deadline::after(kPatience));
  delete &node;
  munmap(board, sizeof(Board));
}

TEST(a_forked_child_does_not_hide_its_parents_death) {
  Board* board = Board::make();
  const pid_t parent = in_a_process([&] {
    Node& node = join_as_process(*board, 1, 3);
    must(node.mesh->link_to(0).send(Lane::kNormal, message(1), {}));
    CHECK(eventually([&] { return node.mesh->find_link(0)->is_connected() && !node.mesh->find_link(0)->has_output(); },
                     [&] { node.mesh->progress(); }));
    const pid_t child = fork();
    if (child == 0) {
      alarm(50);  // it does not inherit its parent's
      // As a data loader: it lives on. What it does with its parent's mesh is harmless.
      node.mesh->progress();
      node.mesh->ring();
      node.mesh->abort("in the child");
      const auto refuses = [&](int rank) { return !node.mesh->link_to(rank).send(Lane::kNormal, {}, {}).is_ok(); };
      const bool refused = refuses(0) && refuses(2);
      node.mesh.reset();
      node.endpoint.reset();
      board->stage = refused ? 1 : 9;
      while (board->stage != 2) std::this_thread::yield();
      _exit(0);
    }
    for (;;) node.mesh->progress();
  });
  board->post(2, Address());
  Node& node = join_as_process(*board, 0, 3);
  CHECK(eventually([&] { return node.sink.count() == 1; }, [&] { node.mesh->progress(); }));
  board->reach(1);
  CHECK_EQ(board->stage.load(), 1);
  CHECK(!node.sink.has_ended(1));
  kill(parent, SIGKILL);
  static_cast<void>(wait_for(parent));
  CHECK(eventually([&] { return node.sink.has_ended(1); }, [&] { node.mesh->progress(); }));
  CHECK(node.sink.end_of(1).kind == EndKind::kLost);
  board->stage = 2;
  delete &node;
}

CHECK_MAIN()

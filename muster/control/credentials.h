// From the files that flags name to what gRPC wants: credentials of a server or a channel, and the check of every call.
//
// Two ways. Mutual TLS (`--certs`): both sides show certificates of one authority; the client accepts a coordinator's
// certificate only, wherever it runs, and the server takes the role out of the caller's. TLS and token (`--tls-cert`,
// `--tls-key`, `--token`): the server shows any certificate, which the client compares with the address it calls; the
// caller's role is that of its token.
// The server's TLS asks for a certificate and proves that its key is there, but leaves it to the check of the call
// whether it is trusted: so a refusal has a reason and an address in the audit and is told to the caller, dates count
// at every call and not only when a connection is made. A service that does not ask `authorize` is open to all. For
// sources that talk gRPC: it brings its headers.
#pragma once

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <functional>
#include <memory>
#include <optional>

#include "muster/base/clock.h"
#include "muster/control/audit.h"
#include "muster/control/authorize_call.h"
#include "muster/control/certificates.h"
#include "muster/control/trust_options.h"

namespace muster::control {

class Arrivals;

struct ServerTrust {
  std::shared_ptr<grpc::ServerCredentials> credentials;
  // OK, or UNAUTHENTICATED (nobody we know) or PERMISSION_DENIED (its role may not) with an ErrorDetail. Writes to the
  // audit.
  AuthorizeCall authorize;
  // Who calls, of a call that was authorized: for services to whom it matters. From any thread.
  std::function<std::optional<CallerIdentity>(const grpc::ServerContextBase& context)> identify;
  std::shared_ptr<Arrivals> arrivals;  // for TcpGate: connections whose first call has not come yet
};

// Throws kInvalidInput (options that do not fit together; a certificate that is no coordinator's), and as
// trust_files.h. `audit` and `clock` outlive what is made. REQUIRES: options.any().
ServerTrust make_server_trust(const TrustOptions& options, Audit& audit, const Clock& clock = system_clock());

// Throws likewise. REQUIRES: options.any().
std::shared_ptr<grpc::ChannelCredentials> make_channel_credentials(const TrustOptions& options);
// With them: that the other end has a coordinator's certificate, wherever it runs (certificates.h, kCoordinatorHost).
// An agent's is of the same authority, and must not be enough to collect what others send.
void expect_coordinator(const TrustOptions& options, grpc::ChannelArguments& arguments);

// What gRPC can limit of strangers: 4 KiB of metadata, 5 s for the handshake and the first settings, 10 s without a
// call, and an hour for a connection, after which the caller makes another one by itself. Not limited by gRPC: a
// request's message is read before the check of the call (as long as the service allows), and how many connect;
// tcp_gate.h does what can be done before TLS.
void limit_strangers(grpc::ServerBuilder& builder);

}  // namespace muster::control

// Muster's C++ face: everything a training program needs, in one include and one namespace.
//
//   auto worker  = muster::join(argc, argv);
//   auto net     = muster::zoo::resnet({.depth = 18, .classes = 10});
//   auto session = muster::synchronize(worker, net, muster::Sgd{.lr = 0.1, .momentum = 0.9}, {.batch = 256});
//   for (auto& lane : session.lanes(dataset)) {
//     lane.backward(cross_entropy(net->forward(lane.data), lane.target));
//   }
//
// Own models are LibTorch modules as they are; own data sets implement muster::Dataset (two numbers and a read
// function). Failures are muster::Error.
#pragma once

#include "muster/base/error.h"
#include "muster/base/version.h"
#include "muster/compute/autocast.h"
#include "muster/compute/optimizer.h"
#include "muster/data/dataset.h"
#include "muster/data/numbered.h"
#include "muster/data/sampling.h"
#include "muster/data/sources.h"
#include "muster/data/subset.h"
#include "muster/model/make_model.h"
#include "muster/model/script_net.h"
#include "muster/model/sync_batch_norm.h"
#include "muster/model/zoo/cnn.h"
#include "muster/model/zoo/mlp.h"
#include "muster/model/zoo/resnet.h"
#include "muster/model/zoo/transformer.h"
#include "muster/strategies/all_reduce/all_reduce.h"
#include "muster/strategies/local_sgd/local_sgd.h"
#include "muster/strategies/parameter_server/local_servers.h"
#include "muster/strategies/parameter_server/parameter_client.h"
#include "muster/strategies/parameter_server/parameter_server.h"
#include "muster/strategies/shared_sync/shared_sync.h"
#include "muster/trainer/evaluation.h"
#include "muster/trainer/servers.h"
#include "muster/trainer/staged_session.h"
#include "muster/trainer/synchronize.h"
#include "muster/trainer/worker.h"

namespace muster {

using comm::Reduction;
using compute::Adam;
using compute::AdamW;
using compute::Autocast;
using compute::Lamb;
using compute::Lars;
using compute::OwnOptimizer;
using compute::Schedule;
using compute::Sgd;
using data::Cursor;
using data::Dataset;
using data::numbered;
using data::open_source;
using data::SampleSpec;
using data::Sampling;
using data::weighted;
using model::FlatLayout;
using model::load_script;
using model::SyncBatchNorm2d;
using model::synchronize_batch_norm;
using strategies::AllReduce;
using strategies::LocalServers;
using strategies::LocalSgd;
using strategies::OwnUpdate;
using strategies::ParameterClient;
using strategies::ParameterServer;
using strategies::ServerPlan;
using strategies::ServerTable;
using strategies::SharedSync;
using strategies::SparseOptimizer;
using strategies::TableOptions;
using trainer::Backward;
using trainer::Blocks;
using trainer::evaluate;
using trainer::Evaluation;
using trainer::join;
using trainer::JoinOptions;
using trainer::Lane;
using Part = trainer::ModelPart;
using trainer::Servers;
using trainer::Session;
using trainer::SessionOptions;
using trainer::StagedSession;
using trainer::StageOptions;
using trainer::synchronize;
using trainer::synchronize_stages;
using trainer::Worker;

}  // namespace muster

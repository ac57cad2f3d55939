# Writes the traces, fleets and policies that test/bench/sim/same/run simulates.
import csv, random, sys
T, W = sys.argv[1], sys.argv[2]
nodes = list(csv.DictReader(open(f'{T}/openb/openb_node_list_gpu_node.csv')))
gpus = 1000 * sum(int(n['gpu']) for n in nodes)
for v in ['default', 'cpu100', 'gpushare40', 'gpuspec10', 'multigpu20']:
    pods = list(csv.DictReader(open(f'{T}/openb/openb_pod_list_{v}.csv')))
    order = [int(x) for x in open(f'{T}/openb/order/openb_pod_list_{v}.seed42.order')]
    for load in (100, 130):
        rnd = random.Random(7)
        stay, ends, asked, at = [], [], 0, 0
        for i, row in enumerate(order):
            p = pods[row]
            need = int(p['num_gpu']) * int(p['gpu_milli'])
            if asked + need > gpus * load // 100: break
            asked += need
            base = [f"{p['name']}-{i}", p['cpu_milli'], p['memory_mib'], p['num_gpu'], p['gpu_milli'], p.get('gpu_spec', '')]
            stay.append(base + [i, ''])
            ends.append(base + [i, i + 1 + int(rnd.expovariate(1 / 3000))])
        for name, rows in (('stay', stay), ('ends', ends)):
            w = csv.writer(open(f'{W}/openb-{v}-{load}-{name}.csv', 'w'))
            w.writerow(['name', 'cpu_milli', 'memory_mib', 'num_gpu', 'gpu_milli', 'gpu_spec', 'creation_time', 'deletion_time'])
            w.writerows(rows)
pools = {"6214e9": 64, "b436b2": 64, "ee9e8c": 64, "7f04ca": 32, "6c71a0": 32, "0e4a51": 32, "11cb48": 16, "e13805": 16, "2869ce": 16, "ed69ec": 8, "103959": 8}
n = {k: (v * 10 + 31) // 32 for k, v in pools.items()}
rows = [r for r in csv.DictReader(open(f'{T}/philly/philly.csv')) if '2017-10-01' <= r['timestamp'] < '2017-12-01' and r['cluster'] in pools]
rows.sort(key=lambda r: r['timestamp'])
for name, some in (('philly', rows), ('philly-short', rows[:12000])):
    w = csv.DictWriter(open(f'{W}/{name}.csv', 'w'), rows[0].keys()); w.writeheader(); w.writerows(some)
m = '  - {name: m, count: %d, gpus: 8, cpus: 64, memory_mb: 1048576, links: NV2, leaf_size: 8}\n'
open(f'{W}/one.yaml', 'w').write('machines:\n' + m % 70)
open(f'{W}/quotas.yaml', 'w').write('machines:\n' + m % 40 + 'tenants:\n' + ''.join(
    f'  - {{name: "{k}", weight: {1 + v % 3}, quotas: [{{gpus: {max(8, v * 2)}, borrow: {v * 8}, lend: {v * 2}}}]}}\n' for k, v in sorted(n.items())))
open(f'{W}/deadlines.yaml', 'w').write('machines:\n  - {name: m, count: 156, gpus: 8, cpus: 64, memory_mb: 1048576}\n')
open(f'{W}/patient.yaml', 'w').write('name: patient\nbase: tiresias\nestimate: forecast\ncheckpoint_seconds: 30\nmax_preemptions: 10\n')
open(f'{W}/forecast.yaml', 'w').write('name: forecast\nbase: ares\nestimate: forecast\n')
open(f'{W}/oracle.yaml', 'w').write('name: oracle\nbase: ares\nestimate: oracle\nestimate_error: 0.5\n')

//! Until when a volume is busy: what comes before that waits behind the others, whenever it comes.

use pgassay_volume::{Distribution, Kind, Latency, Limiter, Model, Request, Scope, Stripes, Volume};

mod drawn;
use drawn::Draw;

const AT_ONCE: Distribution = Distribution {
    median_ns: 0.0,
    sigma: 0.0,
    bytes_per_second: None,
};

fn model(limiters: Vec<Limiter>, count: u32) -> Model {
    Model {
        name: "drawn".to_owned(),
        stripes: Stripes {
            count,
            ..Stripes::default()
        },
        limiters,
        latency: Latency {
            read: AT_ONCE,
            write: AT_ONCE,
            flush: AT_ONCE,
        },
        first_touch: None,
    }
}

#[test]
fn whenever_a_request_comes_until_then_it_is_done_at_the_same_time() {
    let mut draw = Draw::new(1);
    let mut waited = 0;
    for _ in 0..500 {
        let mut volume = Volume::new(&model(vec![draw.limiter(Scope::Volume)], 1), 1).unwrap();
        for request in draw.requests(50) {
            let busy_ns = volume.busy_until_ns();
            let done_ns = volume.clone().submit(&request).done_ns;
            if busy_ns > request.arrival_ns {
                let arrival_ns = request.arrival_ns + draw.up_to(busy_ns - request.arrival_ns - 1);
                let later = Request {
                    arrival_ns,
                    ..request
                };
                assert_eq!(volume.clone().submit(&later).done_ns, done_ns);
                waited += 1;
            }
            assert!(done_ns >= busy_ns);
            volume.submit(&request);
        }
    }
    assert!(waited > 1_000, "{waited}");
}

#[test]
fn nothing_passes_a_chain_on_any_volume_of_a_stripe_set_before_that() {
    let mut draw = Draw::new(2);
    for _ in 0..300 {
        let scopes = [Scope::Volume, Scope::Stripes, Scope::Instance, Scope::Volume];
        let limiters = scopes.into_iter().map(|scope| draw.limiter(scope)).collect();
        let mut volume = Volume::new(&model(limiters, 1 + draw.up_to(3) as u32), 1).unwrap();
        for request in draw.requests(50) {
            let busy_ns = volume.busy_until_ns();
            assert!(volume.submit(&request).done_ns >= busy_ns);
        }
    }
}

#[test]
fn one_idle_volume_of_a_stripe_set_is_enough_to_be_free() {
    let limiter: Limiter = serde_json::from_value(serde_json::json!({
        "name": "operations", "unit": "operations", "rate": 1_000, "quantum_bytes": 1 << 18,
    }))
    .unwrap();
    let mut volume = Volume::new(&model(vec![limiter], 2), 1).unwrap();
    let width = Stripes::default().width_bytes;
    let ask = |volume: &mut Volume, stripe: u64| {
        let request = Request {
            arrival_ns: 0,
            kind: Kind::Read,
            offset: stripe * width,
            length: 8192,
        };
        for _ in 0..100 {
            volume.submit(&request);
        }
    };
    ask(&mut volume, 0);
    assert_eq!(volume.busy_until_ns(), 0);
    ask(&mut volume, 1);
    assert!(volume.busy_until_ns() > 50_000_000);
}

#[test]
fn what_has_no_limit_is_never_busy() {
    assert_eq!(Volume::new(&model(Vec::new(), 1), 1).unwrap().busy_until_ns(), 0);
}
